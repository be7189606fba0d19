/* Who joins how many groups on a device, and which the network is subscribed to. */
#include "groups.h"

#include <assert.h>
#include <stdio.h>

static struct groups groups;

static const uint64_t broadcast = 0xffffffffffff;

static void look_at(uint64_t count) {
	groups_begin(&groups);
	for (uint64_t i = 0; i < count; i++) groups_add(&groups, 0x01005e010000 + i, 0, false);
}

/* What a user has joined: one group more than there is room for; as many looks as that takes. */
static void join_all(void) {
	for (int look = 1; look <= GROUPS_OTHERS_MOST / GROUPS_AT_ONCE; look++) {
		look_at(GROUPS_OTHERS_MOST + 1);
		assert(groups.others == (size_t)(look * GROUPS_AT_ONCE));
	}
	look_at(GROUPS_OTHERS_MOST);
	assert(groups.others == GROUPS_OTHERS_MOST);
	assert(groups_add(&groups, 0x01005e010000 + GROUPS_OTHERS_MOST, 0, false) == GROUPS_FULL);
}

static void groups_of_users_take_no_room_from_the_router(void) {
	groups = (struct groups){0};
	groups_begin(&groups);
	join_all();
	for (uint32_t i = 0; i < 200; i++) assert(groups_add(&groups, broadcast, 0xc0000200 + i, true) == GROUPS_FRESH);
	assert(groups_add(&groups, 0x3333ff000001, 0, true) == GROUPS_FRESH);
	assert(groups_add(&groups, 0x3333ff000002, 0, false) == GROUPS_FULL); /* not of an address */
	for (uint64_t i = 0; i < 256; i++) {
		assert(groups_add(&groups, 0x01005e000000 + i, 0, false) == GROUPS_FRESH); /* OSPF and the like */
		assert(groups_add(&groups, 0x333300000000 + i, 0, false) == GROUPS_FRESH);
	}
	struct group gone;
	assert(!groups_drop(&groups, &gone));
}

static void what_is_gone_makes_room(void) {
	groups = (struct groups){0};
	groups_begin(&groups);
	join_all();
	groups_begin(&groups);
	assert(groups_add(&groups, 0x01005e010000, 0, false) == GROUPS_KNOWN);
	struct group gone;
	int dropped = 0;
	while (groups_drop(&groups, &gone)) assert(gone.mac > 0x01005e010000 && gone.adi == 0), dropped++;
	assert(dropped == GROUPS_OTHERS_MOST - 1 && groups.count == 1 && groups.others == 1);
	assert(groups_add(&groups, 0x01005e020000, 0, false) == GROUPS_FRESH);
}

static void the_group_of_an_address_does_not_count_as_joined(void) {
	groups = (struct groups){0};
	groups_begin(&groups);
	assert(groups_add(&groups, 0x3333ff000001, 0, true) == GROUPS_FRESH);
	assert(groups_add(&groups, 0x3333ff000001, 0, false) == GROUPS_KNOWN && groups.others == 0);
	groups_begin(&groups); /* the address is gone, a program still has the group */
	assert(groups_add(&groups, 0x3333ff000001, 0, false) == GROUPS_KNOWN && groups.others == 1);
	groups_begin(&groups);
	assert(groups_add(&groups, 0x3333ff000001, 0, true) == GROUPS_KNOWN && groups.others == 0);
}

int main(void) {
	groups_of_users_take_no_room_from_the_router();
	what_is_gone_makes_room();
	the_group_of_an_address_does_not_count_as_joined();
	puts("ok");
	return 0;
}
