#include "homing.h"

static int64_t doubled(int64_t pause, int64_t first, int64_t longest) {
	return !pause ? first : 2 * pause < longest ? 2 * pause : longest;
}

bool homing_due(const struct homing *homing, int64_t now) { return now >= homing->next; }

int64_t homing_socket(struct homing *homing, int64_t socket, int64_t now) {
	if (homing->expected && homing->expected == socket) homing_compared(homing, 0, now);
	if (now >= homing->until) homing->expected = 0;
	return homing->since ? socket : homing->expected;
}

bool homing_compared(struct homing *homing, int64_t better, int64_t now) {
	homing->expected = better;
	if (better) {
		homing->since = 0;
		homing->until = now + HOMING_ANSWER;
		homing->asked = doubled(homing->asked, HOMING_COMPARE, HOMING_ASK);
		homing->next = now + homing->asked;
		return true;
	}
	if (!homing->since) homing->since = now;
	if (now - homing->since >= HOMING_CALM) homing->fell = 0;
	homing->asked = 0;
	homing->next = now + HOMING_COMPARE;
	return false;
}

void homing_fell(struct homing *homing, int64_t now) {
	homing->expected = 0;
	if (!homing->since) return;
	homing->since = homing->asked = 0;
	homing->fell = doubled(homing->fell, HOMING_FELL, HOMING_LONG);
	homing->next = now + homing->fell;
}
