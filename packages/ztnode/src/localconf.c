#include "localconf.h"

#include "home.h"
#include "util.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LIMIT (1 << 20)

struct localconf {
	char path[HOME_MAX + 16];
	struct timespec seen; /* when the file was changed that was read last */
	pthread_mutex_t lock; /* of settings, which the main thread changes */
	struct settings *settings;
};

/* NULL with a line said; `*read`: the file could be read, so that it will be the same until it is changed. */
static struct settings *read_settings(const char *path, bool exists, bool *read) {
	char reason[160] = "";
	size_t length = 2;
	char *text = exists ? read_file(path, LIMIT, &length) : strdup("{}");
	int error = errno;
	*read = text != NULL;
	struct settings *fresh = text ? settings_parse(text, length, reason, sizeof reason) : NULL;
	if (!fresh) say("%s cannot be used (%s)", path, text ? reason : strerror(error));
	free(text);
	return fresh;
}

bool localconf_look(struct localconf *conf) {
	struct stat info = {0};
	bool exists = stat(conf->path, &info) == 0;
	if (!exists && errno != ENOENT && errno != ENOTDIR) {
		if (!conf->settings) say("%s cannot be looked at (%s)", conf->path, strerror(errno));
		return false;
	}
	if (conf->settings &&
	    (!exists || (info.st_mtim.tv_sec == conf->seen.tv_sec && info.st_mtim.tv_nsec == conf->seen.tv_nsec)))
		return false;
	bool read;
	struct settings *fresh = read_settings(conf->path, exists, &read);
	if (read) conf->seen = info.st_mtim;
	if (!fresh) return false;
	pthread_mutex_lock(&conf->lock);
	settings_free(conf->settings);
	conf->settings = fresh;
	pthread_mutex_unlock(&conf->lock);
	return true;
}

struct localconf *localconf_open(const char *home) {
	struct localconf *conf = calloc(1, sizeof *conf);
	if (!conf) return NULL;
	snprintf(conf->path, sizeof conf->path, "%s/local.conf", home);
	pthread_mutex_init(&conf->lock, NULL);
	if (localconf_look(conf)) return conf;
	localconf_close(conf);
	return NULL;
}

void localconf_close(struct localconf *conf) {
	if (!conf) return;
	settings_free(conf->settings);
	pthread_mutex_destroy(&conf->lock);
	free(conf);
}

const struct settings *localconf_settings(const struct localconf *conf) { return conf->settings; }

bool localconf_excludes(struct localconf *conf, const struct sockaddr_storage *address) {
	pthread_mutex_lock(&conf->lock);
	bool excluded = address_excluded(conf->settings, address);
	pthread_mutex_unlock(&conf->lock);
	return excluded;
}

bool localconf_names(struct localconf *conf, const struct sockaddr_storage *address) {
	pthread_mutex_lock(&conf->lock);
	bool named = try_listed(conf->settings, 0, address);
	pthread_mutex_unlock(&conf->lock);
	return named;
}

bool localconf_try(struct localconf *conf, uint64_t node, int family, struct sockaddr_storage *found) {
	int count = 0;
	pthread_mutex_lock(&conf->lock);
	for (size_t i = 0; i < conf->settings->try_count; i++) {
		const struct try_address *entry = &conf->settings->tries[i];
		if (entry->node != node || (family != -1 && entry->address.ss_family != family)) continue;
		if (count++ == 0 || rand() % count == 0) *found = entry->address;
	}
	pthread_mutex_unlock(&conf->lock);
	return count > 0;
}
