#include "recovery.h"

static int search(struct watch *watch, int64_t now) {
	watch->searched = now;
	return RECOVERY_SEARCH;
}

static int try_again(struct watch *watch, int64_t now) {
	watch->searched = now;
	return RECOVERY_TRY;
}

static int look_for_it(struct watch *watch, bool configured, int64_t now) {
	if (!watch->down) watch->down = now;
	watch->asked = watch->waiting = 0;
	int64_t pause = now - watch->down < RECOVERY_EAGER_FOR ? RECOVERY_EAGER : RECOVERY_STEADY;
	return configured && (!watch->searched || now - watch->searched >= pause) ? search(watch, now) : 0;
}

static int give_up(struct watch *watch, int64_t now) {
	watch->asked = watch->waiting = watch->hinted = 0;
	return RECOVERY_RESET | search(watch, now);
}

static int64_t time_for_an_answer(const struct preferred_path *path) {
	int64_t needed = RECOVERY_WORK + path->latency * 3 / 2;
	return needed < RECOVERY_ANSWER ? RECOVERY_ANSWER : needed > RECOVERY_PATIENCE ? RECOVERY_PATIENCE : needed;
}

int recovery_look(struct watch *watch, const struct preferred_path *path, bool configured, bool hinted, int64_t now) {
	if (hinted) watch->hinted = now;
	if (!path->found) return look_for_it(watch, configured, now);
	watch->down = 0;
	if (path->gone) return give_up(watch, now);
	if (path->received != watch->received) {
		watch->received = path->received;
		watch->asked = watch->waiting = 0;
	}
	if (!watch->waiting && path->sent > path->received) watch->waiting = now;
	if (watch->asked) {
		if (now - watch->asked >= time_for_an_answer(path)) return give_up(watch, now);
		if (now - watch->asked_last < RECOVERY_AGAIN) return 0;
		watch->asked_last = now;
		return RECOVERY_ASK;
	}
	bool doubted = watch->waiting && now - watch->waiting >= RECOVERY_SILENT;
	bool elsewhere = watch->hinted && now - watch->hinted < RECOVERY_HINT && now - path->received >= RECOVERY_HINTED;
	bool idle = configured && now - path->received >= RECOVERY_IDLE;
	bool overtaken = path->heard - path->received >= RECOVERY_OVERTAKEN && now - watch->asked_last >= RECOVERY_SILENT;
	if (!doubted && !elsewhere && !idle && !overtaken)
		return path->astray && now - watch->searched >= RECOVERY_ASTRAY ? try_again(watch, now) : 0;
	watch->asked = watch->asked_last = now;
	return RECOVERY_ASK;
}

bool recovery_trusts(const struct watch *watch, const struct preferred_path *path, int64_t now) {
	return path->found && !path->gone && (!watch->asked || now - watch->asked < time_for_an_answer(path) / 2);
}
