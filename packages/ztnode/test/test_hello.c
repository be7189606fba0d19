/* How many HELLOs in extended armor cost an agreement on a key: the core's functions are played. */
#include "../src/hello.c"

#include <assert.h>
#include <stdio.h>

#define START 1700000000000

static unsigned int agreed;

bool identity_private_key(const char *secret, unsigned char key[64]) {
	memset(key, 1, 64);
	return secret;
}
void core_agree(const unsigned char private_key[64], const unsigned char public_key[64], void *key, unsigned int length) {
	(void)private_key, (void)public_key;
	memset(key, 1, length);
	agreed++;
}
void core_aes_init(void *aes, const unsigned char key[32]) { (void)aes, (void)key; }
void core_aes_encrypt(const void *aes, const unsigned char in[16], unsigned char out[16]) {
	(void)aes, (void)in;
	memset(out, 0, 16);
}

static size_t open_one(struct hello *hello, bool known, int64_t now) {
	unsigned char packet[100] = {[HELLO_DESTINATION] = 0x11, 0x11, 0x11, 0x11, 0x11, [18] = 0x80, [VERB] = VERB_HELLO};
	unsigned char plain[HELLO_MAX];
	assert(hello_is_encrypted(packet, sizeof packet));
	return hello_open(hello, packet, sizeof packet, known, plain, now);
}

int main(void) {
	struct hello *hello = hello_new("1111111111");
	assert(hello);
	for (int i = 0; i < 1000; i++) open_one(hello, false, START + i);
	assert(agreed == PER_SECOND && open_one(hello, false, START + 999) == 0);
	assert(open_one(hello, true, START + 999) == 100 - EPHEMERAL); /* strangers have not used it up */
	for (int i = 0; i < 1000; i++) open_one(hello, true, START + 999);
	assert(agreed == 2 * PER_SECOND);
	assert(open_one(hello, true, START + 1000) && open_one(hello, false, START + 1000));
	hello_free(hello);
	puts("ok");
	return 0;
}
