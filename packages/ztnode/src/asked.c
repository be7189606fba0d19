#include "asked.h"

#include "util.h"

#include <stdatomic.h>

enum { DESTINATION = 8, SOURCE = 13, FLAGS = 18, VERB = 27, NETWORK = 28, LEAST = NETWORK + 8 };
enum { VERB_MASK = 0x1f, VERB_GATHER = 0x0d, VERB_GROUP_FRAME = 0x0e };
enum { FRAGMENT = 0xff, CIPHER_MASK = 0x38, UNSEALED = 0x10 };
enum { SLOT_BITS = 12, NODE_BITS = 40 };

/* By the lowest bits of the number. The first word has node, verb, and the other bits of the number. One that is being
 * written while another thread reads it is none that is being answered. */
static struct question { _Atomic uint64_t what, network; } questions[1 << SLOT_BITS];

static struct question *slot_of(uint32_t number) { return &questions[number & ((1 << SLOT_BITS) - 1)]; }

static uint64_t word_of(uint64_t node, unsigned int verb, uint32_t number) {
	return (uint64_t)(number >> SLOT_BITS) << (NODE_BITS + 1) | (uint64_t)(verb == VERB_GATHER) << NODE_BITS | node;
}

static bool is_question(unsigned int verb) { return verb == VERB_GATHER || verb == VERB_GROUP_FRAME; }

bool asked_may_be(const unsigned char *packet, unsigned int length) {
	return length >= LEAST && is_question(packet[VERB] & VERB_MASK);
}

void asked_sending(const unsigned char *packet, unsigned int length) {
	if (!asked_may_be(packet, length)) return;
	uint32_t number = (uint32_t)number_at(packet, 4);
	struct question *question = slot_of(number);
	atomic_store_explicit(&question->network, number_at(packet + NETWORK, 8), memory_order_relaxed);
	atomic_store_explicit(&question->what, word_of(number_at(packet + DESTINATION, 5), packet[VERB] & VERB_MASK, number),
	                      memory_order_release);
}

bool asked_unsealed(const unsigned char *packet, unsigned int length) {
	return length >= LEAST && packet[SOURCE] != FRAGMENT && (packet[FLAGS] & CIPHER_MASK) == UNSEALED &&
	       asked_may_be(packet, length);
}

bool asked_of(uint64_t node, unsigned int verb, uint32_t number, uint64_t network) {
	struct question *question = slot_of(number);
	return is_question(verb) &&
	       atomic_load_explicit(&question->what, memory_order_acquire) == word_of(node, verb, number) &&
	       atomic_load_explicit(&question->network, memory_order_relaxed) == network;
}
