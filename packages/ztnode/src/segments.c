#include "segments.h"

#define GET(place) atomic_load_explicit(&(place), memory_order_relaxed)
#define SET(place, value) atomic_store_explicit(&(place), (value), memory_order_relaxed)

static bool were_refused(const struct segments *segments, uint16_t size) {
	return GET(segments->pause) && size >= GET(segments->least);
}

bool segments_may_go(const struct segments *segments, uint16_t size, int64_t now) {
	return !were_refused(segments, size) || now >= GET(segments->until);
}

bool segments_refused(struct segments *segments, uint16_t size, int64_t now) {
	int64_t last = GET(segments->pause), pause = last ? 2 * last : SEGMENTS_PAUSE_MS;
	if (pause > SEGMENTS_PAUSE_MOST_MS) pause = SEGMENTS_PAUSE_MOST_MS;
	if (!last || size < GET(segments->least)) SET(segments->least, size);
	SET(segments->pause, pause);
	SET(segments->until, now + pause);
	return !last;
}

void segments_taken(struct segments *segments, uint16_t size) {
	if (were_refused(segments, size)) SET(segments->pause, 0);
}
