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

static inline bool bucket_take_some(struct bucket *bucket, double some) {
	if (bucket->tokens < some) return false;
	bucket->tokens -= some;
	return true;
}

static inline bool bucket_take(struct bucket *bucket) { return bucket_take_some(bucket, 1); }

#endif
