/* A fuzzer without its engine: every file that is named goes through it once. So CI has the corpora with gcc alone. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int count, char **files) {
	for (int i = 1; i < count; i++) {
		FILE *file = fopen(files[i], "rb");
		if (!file || fseek(file, 0, SEEK_END) != 0) {
			perror(files[i]);
			return 1;
		}
		long size = ftell(file);
		rewind(file);
		uint8_t *data = malloc(size ? (size_t)size : 1);
		if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
			perror(files[i]);
			return 1;
		}
		fclose(file);
		LLVMFuzzerTestOneInput(data, (size_t)size);
		free(data);
	}
	printf("%d inputs\n", count - 1);
	return count > 1 ? 0 : 1;
}
