/* Any bytes as frames from the TAP and from peers: no crash, and nothing longer than it may be. */
#include "offload.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(void *context, const struct virtio_net_hdr *header, const unsigned char *frame, size_t length) {
	(void)context, (void)header, (void)frame;
	if (length > FRAME_MAX) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static struct joiner joiner;
	struct virtio_net_hdr header;
	if (size < sizeof header + 2 || size > FRAME_MAX) return 0;
	memcpy(&header, data, sizeof header);
	unsigned char *frame = malloc(size - sizeof header);
	memcpy(frame, data + sizeof header, size - sizeof header);
	frame_split(&header, frame, size - sizeof header, check, NULL);
	free(frame);
	size_t piece = data[0] + 14u;
	for (size_t at = 0; at + piece <= size; at += piece) join_frame(&joiner, data + at, piece, check, NULL);
	join_flush(&joiner, check, NULL);
	return 0;
}
