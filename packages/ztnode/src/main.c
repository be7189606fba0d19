/* ztnode: a drop-in for zerotier-one around ZeroTier's core library. */
#include "api.h"
#include "armor.h"
#include "bridges.h"
#include "closed.h"
#include "core.h"
#include "decode.h"
#include "expiry.h"
#include "home.h"
#include "identity.h"
#include "node.h"
#include "scope.h"
#include "util.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

static int usage(FILE *out) {
	fprintf(out, "Usage: ztnode [-U] [-pPORT] HOME       run a node in HOME\n"
	             "       ztnode -i generate SECRET PUBLIC create an identity\n"
	             "       ztnode -i getpublic SECRET       print its public part\n"
	             "       ztnode -i validate IDENTITY      say whether a public identity is one\n"
	             "       ztnode -v                        print the core's version, as zerotier-one does\n"
	             "       ztnode --version | -h | --help\n"
	             "-U is accepted for compatibility with zerotier-one: ztnode never changes its user.\n");
	return out == stdout ? 0 : 1;
}

static int print_public(const char *path) {
	char *text = read_file(path, 4096, NULL);
	if (!text || !identity_sound(text)) {
		say("%s is not a secret identity", path);
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
			say("%s already exists and is not overwritten", arguments[1]);
			return 1;
		}
		return identity_generate(arguments[1], arguments[2]) ? 0 : 1;
	}
	if (count == 2 && strcmp(arguments[0], "getpublic") == 0) return print_public(arguments[1]);
	if (count == 2 && strcmp(arguments[0], "validate") == 0) {
		bool valid = identity_valid(arguments[1]);
		puts(valid ? "it is a valid identity" : "it is not a valid public identity");
		return valid ? 0 : 1;
	}
	return usage(stderr);
}

/* A descriptor that is readable once the process is to end: TERM and INT are blocked for this thread and all that it
 * starts, so none of them is interrupted. -1 with errno set. */
static int open_stop(void) {
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run_node(const char *home, unsigned int port, const int version[3]) {
	char token[TOKEN_MAX];
	if (!home_token(home, token)) return 1;
	int stop = open_stop();
	struct node *node = stop >= 0 ? node_start(home, port) : NULL;
	struct api *api = node ? api_start(node, home, token) : NULL;
	explicit_bzero(token, sizeof token);
	int code = 1;
	if (api) {
		home_tell(home, node_port(node));
		say("node %010llx on port %u, core %d.%d.%d, AES by %s", (unsigned long long)node_address(node), node_port(node),
		    version[0], version[1], version[2], armor_name());
		code = node_run(node, stop);
	}
	api_stop(api);
	node_delete(node);
	if (stop >= 0) close(stop);
	return code;
}

static int run(const char *home, unsigned int port) {
	int version[3];
	ZT_version(&version[0], &version[1], &version[2]);
	if (version[0] != 1 || version[1] != 8 || !decode_works() || !closed_works() || !expiry_works() || !bridges_works() ||
	    !scope_works() || !armor_works()) {
		say("the core library has version %d.%d.%d, but ztnode supports only 1.8", version[0], version[1], version[2]);
		return 1;
	}
	int lock = home_open(home);
	if (lock < 0) return 1;
	int code = run_node(home, port, version);
	close(lock);
	return code;
}

/* -v prints the core's version alone, because callers of zerotier-one parse it. */
static int print_version(bool full) {
	int major, minor, revision;
	ZT_version(&major, &minor, &revision);
	if (full) printf("ztnode %s, core ", ZTNODE_VERSION);
	printf("%d.%d.%d\n", major, minor, revision);
	return 0;
}

/* False with a line said. */
static bool read_port(const char *text, unsigned int *port) {
	uint64_t value = 0;
	size_t digits = strspn(text, "0123456789");
	for (size_t i = 0; i < digits && value <= 65535; i++) value = value * 10 + (uint64_t)(text[i] - '0');
	*port = (unsigned int)value;
	if (digits > 0 && text[digits] == 0 && value <= 65535) return true;
	say("-p takes a port from 1 to 65535, not '%s'", text);
	return false;
}

int main(int count, char **arguments) {
	static const struct option names[] = {{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
	unsigned int port = 0;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	umask(022);
	opterr = 0;
	for (int option; (option = getopt_long(count, arguments, "Up:ivhd", names, NULL)) != -1;) {
		switch (option) {
		case 'U':
			break;
		case 'p':
			if (!read_port(optarg, &port)) return 1;
			break;
		case 'i':
			return identity_tool(count - optind, arguments + optind);
		case 'v':
			return print_version(false);
		case 'V':
			return print_version(true);
		case 'h':
			return usage(stdout);
		case 'd':
			say("-d is not supported: run ztnode under a service manager");
			return 1;
		default:
			return usage(stderr);
		}
	}
	if (count - optind != 1) return usage(stderr);
	if (strlen(arguments[optind]) >= HOME_MAX) {
		say("the path of the home is too long");
		return 1;
	}
	return run(arguments[optind], port);
}
