#include "rules.h"

#include <stdint.h>
#include <string.h>

/* Of the core: ZeroTierOne.h (ZT_VirtualNetworkRuleType), Capability.hpp (deserializeRules), NetworkConfig.hpp (keys). */
enum { DROP = 0, ACCEPT = 1, SOURCE_NODE = 24, DESTINATION_NODE = 25, ETHERTYPE = 37, MATCH_KIND = 0x3f };
enum { NODE_BYTES = 5, TYPE_BYTES = 2 };
#define RULES_MOST 1024            /* the core ignores those after them */
#define RULES_BYTES ((size_t)7168) /* of as many */

static unsigned char unescaped(char escaped) {
	switch (escaped) {
	case 'r':
		return '\r';
	case 'n':
		return '\n';
	case '0':
		return 0;
	case 'e':
		return '=';
	default:
		return (unsigned char)escaped;
	}
}

/* Bytes of a value; SIZE_MAX for one that is longer than `most` or ends within an escape. */
static size_t unescape(const char *text, size_t length, unsigned char *value, size_t most) {
	size_t count = 0;
	for (size_t i = 0; i < length; i++) {
		bool escape = text[i] == '\\';
		if (escape && ++i == length) return SIZE_MAX;
		if (count == most) return SIZE_MAX;
		value[count++] = escape ? unescaped(text[i]) : (unsigned char)text[i];
	}
	return count;
}

/* Each rule is its type, the number of its bytes, and these. */
static enum rules_look look_of(const unsigned char *rules, size_t length) {
	size_t count = 0;
	enum rules_look look = RULES_AT_NODES;
	bool open = false, accepts_rest = false; /* a match waits for its action; the last rule is an accept without any */
	for (size_t at = 0; at < length; count++) {
		if (length - at < 2) return RULES_AT_FRAMES;
		unsigned char type = rules[at], size = rules[at + 1], kind = type & MATCH_KIND;
		at += 2;
		if (size > length - at) return RULES_AT_FRAMES;
		at += size;
		bool by_type = kind == ETHERTYPE;
		if (by_type || kind == SOURCE_NODE || kind == DESTINATION_NODE) {
			if (size != (by_type ? TYPE_BYTES : NODE_BYTES)) return RULES_AT_FRAMES;
			if (by_type) look = RULES_AT_TYPES;
			open = true;
			accepts_rest = false;
		} else if (type == DROP || type == ACCEPT) {
			if (size != 0) return RULES_AT_FRAMES;
			accepts_rest = type == ACCEPT && !open;
			open = false;
		} else {
			return RULES_AT_FRAMES;
		}
	}
	return accepts_rest && count <= RULES_MOST ? look : RULES_AT_FRAMES;
}

/* A controller writes who is told of frames also where it is nobody. */
static bool is_zero(const char *digits, size_t length) {
	for (size_t i = 0; i < length; i++)
		if (digits[i] != '0') return false;
	return true;
}

enum rules_look rules_look(const char *config, size_t length) {
	unsigned char rules[RULES_BYTES];
	size_t count = 0;
	bool found = false;
	if (length == 0 || memchr(config, 0, length)) return RULES_AT_FRAMES; /* there the core stops reading */
	for (const char *line = config, *end = config + length; line < end;) {
		const char *stop = line;
		while (stop < end && *stop != '\n' && *stop != '\r') stop++;
		size_t here = (size_t)(stop - line);
		if (here >= 3 && memcmp(line, "tt=", 3) == 0 && !is_zero(line + 3, here - 3)) return RULES_AT_FRAMES;
		if (here >= 2 && memcmp(line, "R=", 2) == 0) {
			if (found) return RULES_AT_FRAMES;
			found = true;
			count = unescape(line + 2, here - 2, rules, sizeof rules);
			if (count == SIZE_MAX) return RULES_AT_FRAMES;
		}
		line = stop + 1;
	}
	return found ? look_of(rules, count) : RULES_AT_FRAMES;
}
