#include "looks.h"

bool looks_due(struct looks *looks, bool changed, int64_t now) {
	looks->changed |= changed;
	return looks->changed ? now - looks->answered >= LOOKS_APART : now - looks->looked >= LOOKS_STEADY;
}

void looks_done(struct looks *looks, int64_t now) {
	looks->looked = now;
	if (looks->changed) looks->answered = now;
	looks->changed = false;
}

int64_t looks_pause(const struct looks *looks, int64_t now, int64_t most) {
	int64_t wait = looks->answered + LOOKS_APART - now;
	if (!looks->changed || wait > most) return most;
	return wait < 1 ? 1 : wait;
}
