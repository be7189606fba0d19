#include "asked.h"

#include "util.h"

#include <stdatomic.h>

enum { DESTINATION = 8, VERB = 27, VERB_MASK = 0x1f, VERB_GATHER = 0x0d, VERB_GROUP_FRAME = 0x0e };
enum { SLOT_BITS = 12, NODE_BITS = 40 };

/* By the lowest bits of the number; in each: node, verb, and the other bits of the number. */
static _Atomic uint64_t questions[1 << SLOT_BITS];

static _Atomic uint64_t *slot_of(uint32_t number) { return &questions[number & ((1 << SLOT_BITS) - 1)]; }

static uint64_t question(uint64_t node, unsigned int verb, uint32_t number) {
	return (uint64_t)(number >> SLOT_BITS) << (NODE_BITS + 1) | (uint64_t)(verb == VERB_GATHER) << NODE_BITS | node;
}

void asked_sealing(const unsigned char *packet, unsigned int length) {
	if (length <= VERB) return;
	unsigned int verb = packet[VERB] & VERB_MASK;
	if (verb != VERB_GATHER && verb != VERB_GROUP_FRAME) return;
	uint32_t number = (uint32_t)number_at(packet, 4);
	atomic_store_explicit(slot_of(number), question(number_at(packet + DESTINATION, 5), verb, number),
	                      memory_order_relaxed);
}

bool asked_of(uint64_t node, unsigned int verb, uint32_t number) {
	return (verb == VERB_GATHER || verb == VERB_GROUP_FRAME) &&
	       atomic_load_explicit(slot_of(number), memory_order_relaxed) == question(node, verb, number);
}
