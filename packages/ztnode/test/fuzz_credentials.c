/* Any packets that may bring credentials, to a real core: it makes entries for their sender alone, and where they have
 * revocations for those that these name. 0x1111111111 is the sender. */
#include "forge.h"

#include "credentials.h"

#include <dlfcn.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sender;
static enum credentials whose;
static bool at_work;

enum credentials __real_credentials_of(const unsigned char *bytes, unsigned int length, unsigned int *revocations);
enum credentials __wrap_credentials_of(const unsigned char *bytes, unsigned int length, unsigned int *revocations);
enum credentials __wrap_credentials_of(const unsigned char *bytes, unsigned int length, unsigned int *revocations) {
	unsigned char *copy = malloc(length ? length : 1); /* so that a read beyond its end is seen */
	if (!copy) abort();
	memcpy(copy, bytes, length);
	whose = __real_credentials_of(copy, length, revocations);
	free(copy);
	return whose;
}

/* Network::_membership, which makes the entry of an address where there is none. */
#define CORE_MEMBERSHIP "_ZN8ZeroTier7Network11_membershipERKNS_7AddressE"
void *membership(void *network, const uint64_t *address) __asm__(CORE_MEMBERSHIP);
void *membership(void *network, const uint64_t *address) {
	static void *(*core_membership)(void *, const uint64_t *);
	if (!core_membership) {
		void *found = dlsym(RTLD_NEXT, CORE_MEMBERSHIP);
		memcpy(&core_membership, &found, sizeof found);
	}
	if (at_work && *address != sender && whose != CREDENTIALS_REVOKE) abort();
	return core_membership(network, address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const unsigned char verbs[] = {10, 10, 7, 14, 13, 3, 10 | 0x80, 7 | 0x80};
	static const unsigned char node[] = {0x11, 0x11, 0x11, 0x11, 0x11};
	static struct end ends[2];
	struct end *a = &ends[0], *b = &ends[1];
	if (!sender) {
		pair_begin(ends);
		alarm(0);
		configure(a, true, 1400);
		work(ends, 500);
		sender = strtoull(b->public, NULL, 16);
	}
	if (!size || size > 4096) return 0;
	begin(a, b, 0, verbs[data[0] % sizeof verbs]);
	unsigned char *payload = packet.bytes + packet.length;
	memcpy(payload, data + 1, size - 1);
	packet.length += (unsigned int)size - 1;
	for (size_t i = 0; i + sizeof node < size; i++)
		if (memcmp(payload + i, node, sizeof node) == 0) put_node(payload + i, b->public);
	seal(a, b);
	whose = CREDENTIALS_OWN;
	at_work = true;
	receive_whole(a, b);
	at_work = false;
	wire_begin = wire_end;
	return 0;
}
