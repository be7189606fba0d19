#include "home.h"

#include "identity.h"
#include "util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_directories(const char *home) {
	static const char *const names[] = {"", "/networks.d", "/peers.d", "/moons.d"};
	char path[HOME_MAX + 32];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s%s", home, names[i]);
		mkdir(path, 0700);
	}
}

static int lock(const char *home) {
	char path[HOME_MAX + 32];
	snprintf(path, sizeof path, "%s/ztnode.lock", home);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* A disk that the kernel has made read-only after an error has all that is needed to go on. */
	if (fd < 0 && errno == EROFS) fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		say("home %s is not writable: %s", home, strerror(errno));
		return -1;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		say("home %s is in use by another process", home);
		close(fd);
		return -1;
	}
	return fd;
}

int home_open(const char *home) {
	make_directories(home);
	return lock(home);
}

/* A token that others can have read, as in a home that a backup has brought back open, is theirs too. */
static void drop_open_token(const char *path) {
	struct stat info;
	if (lstat(path, &info) < 0 || !S_ISREG(info.st_mode)) return;
	if ((info.st_uid == 0 || info.st_uid == geteuid()) && !(info.st_mode & 077)) return;
	if (unlink(path) == 0) say("%s could be read by others; a new token replaces it", path);
}

bool home_token(const char *home, char token[TOKEN_MAX]) {
	char path[HOME_MAX + 32];
	snprintf(path, sizeof path, "%s/authtoken.secret", home);
	drop_open_token(path);
	char *text = read_file(path, 4096, NULL);
	if (text && !*text) { /* as after a power cut */
		free(text);
		text = NULL;
		errno = ENOENT;
	}
	if (text) {
		text[strcspn(text, "\r\n \t")] = 0;
		bool good = *text && strlen(text) < TOKEN_MAX;
		if (good) strcpy(token, text);
		else say("%s is unusable; remove it to get a new one", path);
		explicit_bzero(text, strlen(text));
		free(text);
		return good;
	}
	if (errno != ENOENT) {
		say("%s cannot be read: %s", path, strerror(errno));
		return false;
	}
	unsigned char random[12];
	if (getrandom(random, sizeof random, 0) != sizeof random) return false;
	for (size_t i = 0; i < sizeof random; i++) snprintf(token + 2 * i, 3, "%02x", random[i]);
	if (write_lasting(path, token, strlen(token), 0600)) return true;
	say("%s cannot be written: %s", path, strerror(errno));
	return false;
}

bool home_identity_sound(const char *home) {
	char path[HOME_MAX + 32];
	snprintf(path, sizeof path, "%s/identity.secret", home);
	char *text = read_file(path, 4096, NULL);
	if (!text) {
		if (errno == ENOENT) return true;
		say("%s cannot be read: %s", path, strerror(errno));
		return false;
	}
	bool good = identity_sound(text);
	explicit_bzero(text, strlen(text));
	free(text);
	if (!good) say("%s is corrupt and was not changed; restore it from a backup or move it aside", path);
	return good;
}

bool home_planet_readable(const char *home) {
	char path[HOME_MAX + 32];
	snprintf(path, sizeof path, "%s/planet", home);
	char *record = read_file(path, 1 << 20, NULL);
	bool good = record || errno == ENOENT;
	if (!good) say("%s cannot be read: %s; restore it from a backup or move it aside", path, strerror(errno));
	free(record);
	return good;
}

static void write_number(const char *home, const char *name, long number) {
	char path[HOME_MAX + 64], text[24];
	snprintf(path, sizeof path, "%s/%s", home, name);
	snprintf(text, sizeof text, "%ld", number);
	write_file(path, text, strlen(text), 0644);
}

void home_socket(const char *home, char path[HOME_MAX + 32]) {
	const char *service = getenv("RUNTIME_DIRECTORY"); /* systemd.exec(5); several are separated by colons */
	bool elsewhere = service && *service == '/' && !strchr(service, ':') && strlen(service) < HOME_MAX;
	struct stat info;
	snprintf(path, HOME_MAX + 32, "%s/api.sock", home);
	if (!elsewhere) return;
	if (lstat(path, &info) == 0 && S_ISSOCK(info.st_mode)) unlink(path);
	snprintf(path, HOME_MAX + 32, "%s/api.sock", service);
}

void home_tell(const char *home, unsigned int port) {
	write_number(home, "zerotier-one.port", port);
	write_number(home, "zerotier-one.pid", getpid());
}

void home_records(const char *home, const char *folder, const char *ending, void (*each)(void *context, uint64_t id),
                  void *context) {
	char path[HOME_MAX + 32];
	snprintf(path, sizeof path, "%s/%s", home, folder);
	DIR *directory = opendir(path);
	struct dirent *entry;
	while (directory && (entry = readdir(directory))) {
		uint64_t id;
		if (strlen(entry->d_name) > 16 && strcmp(entry->d_name + 16, ending) == 0 && parse_hex(entry->d_name, 16, &id))
			each(context, id);
	}
	if (directory) closedir(directory);
}
