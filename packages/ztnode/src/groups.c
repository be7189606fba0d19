#include "groups.h"

/* 01:00:5e:00:00:xx and 33:33:00:00:00:xx. */
static bool is_of_link(uint64_t mac) { return mac >> 8 == 0x01005e0000 || mac >> 8 == 0x3333000000; }

void groups_begin(struct groups *groups) {
	groups->fresh = 0;
	for (size_t i = 0; i < groups->count; i++) groups->list[i].seen = false;
}

enum groups_answer groups_add(struct groups *groups, uint64_t mac, uint32_t adi, bool own) {
	bool other = !own && !is_of_link(mac);
	for (struct group *group = groups->list; group < groups->list + groups->count; group++) {
		if (group->mac != mac || group->adi != adi) continue;
		if (group->seen) other &= group->other; /* also the group of an address */
		groups->others += other;
		groups->others -= group->other;
		group->other = other;
		group->seen = true;
		return GROUPS_KNOWN;
	}
	if (groups->count == GROUPS_MOST || (other && groups->others >= GROUPS_OTHERS_MOST)) return GROUPS_FULL;
	if (other && groups->fresh++ >= GROUPS_AT_ONCE) return GROUPS_LATER;
	groups->list[groups->count++] = (struct group){mac, adi, true, other};
	groups->others += other;
	return GROUPS_FRESH;
}

bool groups_drop(struct groups *groups, struct group *gone) {
	for (struct group *group = groups->list; group < groups->list + groups->count; group++) {
		if (group->seen) continue;
		*gone = *group;
		groups->others -= group->other;
		*group = groups->list[--groups->count];
		return true;
	}
	return false;
}
