/* What the rules of a network look at. */
#include "rules.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define LOOK(text) rules_look(text, sizeof(text) - 1)
#define IS(text) (LOOK(text) == RULES_AT_NODES)
#define NO(text) (LOOK(text) == RULES_AT_FRAMES)
#define NODE "\x18\x05\x01\x02\x03\x04\x05"
#define NOT_NODE "\x98\x05\x01\x02\x03\x04\x05"
#define NOT_IPV4 "\xa5\x02\x08\\0"
#define NOT_ARP "\xa5\x02\x08\x06"
#define NOT_IPV6 "\xa5\x02\x86\xdd"
#define DROP "\\0\\0"
#define ACCEPT "\x01\\0"

int main(void) {
	/* As the product writes it, and less. */
	assert(IS("v=7\nnwid=8056c2e21c000001\nf=2\nmtu=578\nR=" NOT_NODE NOT_NODE DROP ACCEPT "\n"));
	assert(IS("R=" ACCEPT) && IS("n=x\r\nR=" ACCEPT "\r\nt=1"));
	assert(IS("R=\x19\x05\x01\x02\x03\x04\x05" DROP ACCEPT)); /* the destination */
	assert(IS("R=\x58\x05\\n\\r\\e\\\\\\0" DROP ACCEPT));     /* or; escaped bytes */
	/* Nothing, or no rules: the core drops everything, and may have capabilities. */
	assert(NO("") && NO("R=") && NO("v=7\nr=" ACCEPT "\n") && NO("xR=" ACCEPT));
	assert(NO("R=" DROP) && NO("R=" NODE ACCEPT) && NO("R=" ACCEPT NODE) && NO("R=" ACCEPT DROP));
	/* EtherType: Central's first rules; with nodes; another size. */
	assert(LOOK("R=" NOT_IPV4 NOT_ARP NOT_IPV6 DROP ACCEPT) == RULES_AT_TYPES);
	assert(LOOK("R=\x25\x02\x08\\0" NODE DROP ACCEPT) == RULES_AT_TYPES && NO("R=" NOT_IPV4 DROP));
	assert(NO("R=" NOT_IPV4 ACCEPT) && NO("R=\x25\x01\x08" DROP ACCEPT));
	/* Others: protocol of IP, tee, priority, break, an action with NOT; those that nobody knows. */
	assert(NO("R=\x24\x01\x11" DROP ACCEPT) && NO("R=" NOT_IPV4 "\xa4\x01\x06" DROP ACCEPT));
	assert(NO("R=\x02\x0e"
	          "12345678901234" ACCEPT) &&
	       NO("R=\x06\x01\x03" ACCEPT) && NO("R=\x05\\0" ACCEPT));
	assert(NO("R=\x81\\0") && NO("R=" ACCEPT "\x3f\\0" ACCEPT) && NO("R=\x07\\0" ACCEPT));
	/* Wrong lengths, an end in the middle. */
	assert(NO("R=\x01") && NO("R=\x01\x01x" ACCEPT) && NO("R=\x18\x04\x01\x02\x03\x04" DROP ACCEPT));
	assert(NO("R=" ACCEPT "\x18\x05\x01") && NO("R=" ACCEPT "\\"));
	/* Frames are reported to somebody; two sets of rules; text that the core does not read to its end. */
	assert(IS("tt=0000000000\ntl=0000000000000000\nR=" ACCEPT) && NO("tt=0000000001\nR=" ACCEPT));
	assert(NO("R=" ACCEPT "\ntt=8056c2e21c\n") && NO("R=" ACCEPT "\nR=" ACCEPT));
	assert(!rules_look("n=\0\nR=\x01\\0", 11));
	/* More rules than the core takes. */
	static char many[20000] = "R=";
	size_t length = 2;
	for (int i = 0; i < 1024; i++, length += 3) memcpy(many + length, ACCEPT, 3);
	assert(rules_look(many, length) == RULES_AT_NODES);
	memcpy(many + length, ACCEPT, 3);
	assert(!rules_look(many, length + 3));
	puts("rules");
	return 0;
}
