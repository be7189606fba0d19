/* Any packets and frames in any order, through the core alone and behind the shortcut: nothing differs (twins.h). */
#include "twins.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *script, *script_end;
static unsigned char of_script(void) { return script < script_end ? *script++ : 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static bool begun;
	next = of_script;
	script = script_end = data;
	if (!begun) twins_begin();
	begun = true;
	script_end = data + size;
	while (script < script_end) twins_batch();
	twins_restore();
	return 0;
}
