/* Which networks have rules that look at nodes alone. */
#include "rules.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define IS(text) rules_by_node(text, sizeof(text) - 1)
#define NODE "\x18\x05\x01\x02\x03\x04\x05"
#define NOT_NODE "\x98\x05\x01\x02\x03\x04\x05"
#define DROP "\\0\\0"
#define ACCEPT "\x01\\0"

int main(void) {
	/* As the product writes it, and less. */
	assert(IS("v=7\nnwid=8056c2e21c000001\nf=2\nmtu=578\nR=" NOT_NODE NOT_NODE DROP ACCEPT "\n"));
	assert(IS("R=" ACCEPT) && IS("n=x\r\nR=" ACCEPT "\r\nt=1"));
	assert(IS("R=\x19\x05\x01\x02\x03\x04\x05" DROP ACCEPT)); /* the destination */
	assert(IS("R=\x58\x05\\n\\r\\e\\\\\\0" DROP ACCEPT));     /* or; escaped bytes */
	/* Nothing, or no rules: the core drops everything, and may have capabilities. */
	assert(!IS("") && !IS("R=") && !IS("v=7\nr=" ACCEPT "\n") && !IS("xR=" ACCEPT));
	assert(!IS("R=" DROP) && !IS("R=" NODE ACCEPT) && !IS("R=" ACCEPT NODE) && !IS("R=" ACCEPT DROP));
	/* Others: EtherType, tee, priority, break, an action with NOT; those that nobody knows. */
	assert(!IS("R=\x25\x02\x08\\0" DROP ACCEPT) && !IS("R=\xa5\x02\x08\\0" DROP ACCEPT));
	assert(!IS("R=\x02\x0e"
	           "12345678901234" ACCEPT) &&
	       !IS("R=\x06\x01\x03" ACCEPT) && !IS("R=\x05\\0" ACCEPT));
	assert(!IS("R=\x81\\0") && !IS("R=" ACCEPT "\x3f\\0" ACCEPT) && !IS("R=\x07\\0" ACCEPT));
	/* Wrong lengths, an end in the middle. */
	assert(!IS("R=\x01") && !IS("R=\x01\x01x" ACCEPT) && !IS("R=\x18\x04\x01\x02\x03\x04" DROP ACCEPT));
	assert(!IS("R=" ACCEPT "\x18\x05\x01") && !IS("R=" ACCEPT "\\"));
	/* Frames are reported to somebody; two sets of rules; text that the core does not read to its end. */
	assert(!IS("R=" ACCEPT "\ntt=8056c2e21c\n") && !IS("R=" ACCEPT "\nR=" ACCEPT));
	assert(!rules_by_node("n=\0\nR=\x01\\0", 11));
	/* More rules than the core takes. */
	static char many[20000] = "R=";
	size_t length = 2;
	for (int i = 0; i < 1024; i++, length += 3) memcpy(many + length, ACCEPT, 3);
	assert(rules_by_node(many, length));
	memcpy(many + length, ACCEPT, 3);
	assert(!rules_by_node(many, length + 3));
	puts("rules");
	return 0;
}
