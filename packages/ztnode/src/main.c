/* ztnode: a drop-in for zerotier-one around ZeroTier's core library. */
#include "api.h"
#include "core.h"
#include "decode.h"
#include "node.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static struct node *_Atomic running;

static void on_signal(int number) {
	(void)number;
	int saved = errno;
	struct node *node = running;
	if (node) node_stop(node);
	errno = saved;
}

static int usage(FILE *out) {
	fprintf(out, "Usage: ztnode [-U] [-pPORT] HOME       run a node in HOME\n"
	             "       ztnode -i generate SECRET PUBLIC make an identity\n"
	             "       ztnode -i getpublic SECRET       print its public part\n"
	             "       ztnode -v | -h                   version, this text\n"
	             "-U is taken for zerotier-one's sake: ztnode never changes its user.\n");
	return out == stdout ? 0 : 1;
}

static int print_public(const char *path) {
	char *text = read_file(path, 4096, NULL);
	if (!text || !identity_sound(text)) {
		say("%s is no secret identity", path);
		free(text);
		return 1;
	}
	text[10 + 3 + 128] = 0;
	puts(text);
	explicit_bzero(text, strlen(text));
	free(text);
	return 0;
}

static int identity_tool(int count, char **arguments) {
	if (count == 3 && strcmp(arguments[0], "generate") == 0) {
		if (access(arguments[1], F_OK) == 0) {
			say("%s exists already; it is not overwritten", arguments[1]);
			return 1;
		}
		return identity_generate(arguments[1], arguments[2]) ? 0 : 1;
	}
	if (count == 2 && strcmp(arguments[0], "getpublic") == 0) return print_public(arguments[1]);
	return usage(stderr);
}

/* A token that others can have read, as in a home that a backup has brought back open, is theirs too. */
static void drop_open_token(const char *path) {
	struct stat info;
	if (lstat(path, &info) < 0 || !S_ISREG(info.st_mode)) return;
	if ((info.st_uid == 0 || info.st_uid == geteuid()) && !(info.st_mode & 077)) return;
	if (unlink(path) == 0) say("%s could be read by others; a new token takes its place", path);
}

/* The token of the local API: as it stands, or a new one. */
static bool read_token(const char *home, char token[128]) {
	char path[HOME_MAX + 32];
	snprintf(path, sizeof path, "%s/authtoken.secret", home);
	drop_open_token(path);
	char *text = read_file(path, 4096, NULL);
	if (text) {
		text[strcspn(text, "\r\n \t")] = 0;
		bool good = *text && strlen(text) < 128;
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
	if (write_file(path, token, strlen(token), 0600)) return true;
	say("%s cannot be written: %s", path, strerror(errno));
	return false;
}

static int lock_home(const char *home) {
	char path[HOME_MAX + 32];
	snprintf(path, sizeof path, "%s/ztnode.lock", home);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
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

static void write_number(const char *home, const char *name, long number) {
	char path[HOME_MAX + 64], text[24];
	snprintf(path, sizeof path, "%s/%s", home, name);
	snprintf(text, sizeof text, "%ld", number);
	write_file(path, text, strlen(text), 0644);
}

static void make_directories(const char *home) {
	static const char *const names[] = {"", "/networks.d", "/peers.d", "/moons.d"};
	char path[HOME_MAX + 32];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s%s", home, names[i]);
		mkdir(path, 0700);
	}
}

static int run(const char *home, unsigned int port) {
	int major, minor, revision;
	ZT_version(&major, &minor, &revision);
	if (major != 1 || minor != 8 || !decode_works()) {
		say("the core library has version %d.%d.%d, but this program knows the layout of 1.8 only", major, minor, revision);
		return 1;
	}
	make_directories(home);
	int lock = lock_home(home);
	if (lock < 0) return 1;
	char token[128];
	if (!read_token(home, token)) return 1;
	struct node *node = node_start(home, port);
	if (!node) return 1;
	struct api *api = api_start(node, home, token);
	if (!api) {
		node_delete(node);
		return 1;
	}
	explicit_bzero(token, sizeof token);
	running = node;
	struct sigaction stop = {.sa_handler = on_signal};
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGINT, &stop, NULL);
	write_number(home, "zerotier-one.port", node_port(node));
	write_number(home, "zerotier-one.pid", getpid());
	say("node %010llx on port %u, core %d.%d.%d", (unsigned long long)node_address(node), node_port(node), major, minor,
	    revision);
	int code = node_run(node);
	api_stop(api);
	running = NULL;
	node_delete(node);
	close(lock);
	return code;
}

int main(int count, char **arguments) {
	unsigned long port = 0;
	const char *home = NULL;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	umask(022);
	for (int i = 1; i < count; i++) {
		const char *word = arguments[i];
		if (word[0] != '-') {
			if (home) return usage(stderr);
			home = word;
			continue;
		}
		switch (word[1]) {
		case 'U':
			break;
		case 'p': {
			char *end;
			port = strtoul(word + 2, &end, 10);
			if (!word[2] || *end || port > 65535) {
				say("-p takes a port from 1 to 65535, not '%s'", word + 2);
				return 1;
			}
			break;
		}
		case 'i':
			return identity_tool(count - i - 1, arguments + i + 1);
		case 'v': {
			int major, minor, revision;
			ZT_version(&major, &minor, &revision);
			printf("%d.%d.%d\n", major, minor, revision);
			return 0;
		}
		case 'h':
			return usage(stdout);
		case 'd':
			say("-d is not supported: run ztnode under a service manager");
			return 1;
		default:
			return usage(stderr);
		}
	}
	if (!home) return usage(stderr);
	if (strlen(home) >= HOME_MAX) {
		say("the path of the home is too long");
		return 1;
	}
	return run(home, (unsigned int)port);
}
