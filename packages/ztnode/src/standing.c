#include "standing.h"

#include <stdlib.h>

int standing_scope(int path, bool answers, int configured, int64_t down, int64_t now) {
	if (path && answers) return path;
	return !down || now - down < STANDING_MS ? configured : 0;
}

void standings_begin(struct standings *all) {
	*all = (struct standings){.list = NULL};
	pthread_mutex_init(&all->lock, NULL);
}

void standings_set(struct standings *all, struct standing *list, size_t count) {
	pthread_mutex_lock(&all->lock);
	struct standing *old = all->list;
	all->list = list;
	all->count = count;
	pthread_mutex_unlock(&all->lock);
	free(old);
}

static int by_node(const void *a, const void *b) {
	const struct standing *one = a, *other = b;
	return one->node < other->node ? -1 : one->node > other->node;
}

bool standings_admit(struct standings *all, uint64_t node, int scope, bool configured) {
	struct standing key = {.node = node};
	bool good = true;
	pthread_mutex_lock(&all->lock);
	struct standing *found = all->count ? bsearch(&key, all->list, all->count, sizeof key, by_node) : NULL;
	if (found && configured && !found->scope) found->scope = scope;
	else if (found && !configured) good = !found->scope || scope <= found->scope;
	pthread_mutex_unlock(&all->lock);
	return good;
}

void standings_end(struct standings *all) {
	free(all->list);
	pthread_mutex_destroy(&all->lock);
}
