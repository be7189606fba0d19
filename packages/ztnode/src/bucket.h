/* So many a second, and so many at once: what is taken comes back with time. */
#ifndef ZTNODE_BUCKET_H
#define ZTNODE_BUCKET_H

#include <stdbool.h>

struct bucket {
	double rate, most, tokens;
};

static inline void bucket_fill(struct bucket *bucket, double seconds) {
	bucket->tokens += bucket->rate * seconds;
	if (bucket->tokens > bucket->most) bucket->tokens = bucket->most;
}

static inline bool bucket_take(struct bucket *bucket) {
	if (bucket->tokens < 1) return false;
	bucket->tokens -= 1;
	return true;
}

#endif
