/* local.conf and devicemap as the manager and as people write them. */
#include "settings.h"

#include "offloads.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct settings *parse(const char *text) {
	char reason[80];
	return settings_parse(text, strlen(text), reason, sizeof reason);
}

static bool excluded(struct settings *settings, const char *text) {
	struct sockaddr_storage address;
	assert(parse_address(text, '/', &address));
	return address_excluded(settings, &address);
}

static void what_is_read(void) {
	struct settings *s =
		parse("{\"settings\":{\"primaryPort\":9994,\"bind\":[\"192.0.2.1\",\"2001:db8::1\",\"nonsense\",7],"
	          "\"interfacePrefixBlacklist\":[\"wg\",\"\",\"a-name-that-is-too-long\",3],\"unknown\":{}},"
	          "\"physical\":{\"10.14.0.0/28\":{\"blacklist\":true},\"2001:db8:14::/120\":{\"blacklist\":true},"
	          "\"192.0.2.0/24\":{\"mtu\":1500,\"trustedPathId\":7},\"nonsense\":{},\"10.0.0.0/40\":{\"blacklist\":true}},"
	          "\"virtual\":{\"89e92ceee5\":{\"try\":[\"192.0.2.9/9993\",\"x\"]},\"short\":{\"try\":[\"192.0.2.9/1\"]}}}");
	assert(s && s->primary_port == 9994 && s->bind_count == 2 && s->physical_count == 3 && s->try_count == 1);
	assert(s->tries[0].node == 0x89e92ceee5 && address_port(&s->tries[0].address) == 9993);
	assert(s->physical[2].mtu == 1500 && s->physical[2].trusted_path_id == 7);
	assert(interface_excluded(s, "wg0") && interface_excluded(s, "lo") && interface_excluded(s, "zt0p1"));
	assert(!interface_excluded(s, "eth0"));
	assert(interface_is_dummy("dum0") && interface_is_dummy("dummy0") && !interface_is_dummy("du") &&
	       !interface_is_dummy("eth0"));
	assert(excluded(s, "10.14.0.15/1") && !excluded(s, "10.14.0.16/1") && !excluded(s, "198.51.100.1/1"));
	assert(excluded(s, "2001:db8:14::ff/1") && !excluded(s, "2001:db8:14::100/1"));
	settings_free(s);
}

static void only_some_devices(void) {
	struct settings *s =
		parse("{\"settings\":{\"interfaces\":[\"eth1\",\"eth1.100\",\"\",\"a-name-that-is-too-long\",3,\"zt0p1\"],"
	          "\"interfacePrefixBlacklist\":[\"wg\"]}}");
	assert(s && s->interface_count == 3);
	assert(!interface_excluded(s, "eth1") && !interface_excluded(s, "eth1.100"));
	assert(interface_excluded(s, "eth0") && interface_excluded(s, "eth10") && interface_excluded(s, "eth1.1"));
	assert(interface_excluded(s, "zt0p1") && interface_excluded(s, "wg0"));
	settings_free(s);
}

static void offloads_are_switched_off_by_name(void) {
	static const char *const names[] = {"tso", "uso", "tcp-gro", "udp-gro", "underlay-gso", "underlay-gro", "shortcut"};
	struct settings *s = parse("{\"settings\":{\"offloadDisable\":[\"uso\",7,\"lro\",\"underlay-gro\",\"uso\"]}}");
	assert(s && s->offloads_off == (OFFLOAD_USO | OFFLOAD_UNDERLAY_GRO));
	settings_free(s);
	s = parse("{\"settings\":{\"offloadDisable\":\"uso\"}}");
	assert(s && s->offloads_off == 0);
	settings_free(s);
	unsigned int all = 0;
	for (unsigned int i = 0; i < OFFLOADS; i++) {
		assert(strcmp(offload_name(i), names[i]) == 0 && offload_named(names[i]) == 1u << i);
		all |= offload_named(names[i]);
	}
	assert(all == OFFLOADS_ALL && offload_named("") == 0);
}

static void what_is_refused(void) {
	static const char *const broken[] = {"", "{", "[]", "1", "{\"settings\":", "{} x", "\xff\xfe"};
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) assert(parse(broken[i]) == NULL);
	static const char *const odd[] = {"{}",
	                                  "{\"settings\":7}",
	                                  "{\"physical\":[1]}",
	                                  "{\"settings\":{\"primaryPort\":\"x\"}}",
	                                  "{\"settings\":{\"primaryPort\":70000}}",
	                                  "{\"virtual\":{\"89e92ceee5\":null}}"};
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		struct settings *s = parse(odd[i]);
		assert(s && s->primary_port == 0);
		settings_free(s);
	}
}

static void devicemaps(void) {
	char name[IFNAMSIZ];
	const char *map = "# comment\n8056c2e21c000002=zt1\r\nshort=x\n8056c2e21c000001=zt0p1\n8056c2e21c000003=../etc\n"
					  "8056c2e21c000004=\n8056c2e21c000005=a-name-that-is-too-long";
	assert(devicemap_lookup(map, 0x8056c2e21c000001, name) && strcmp(name, "zt0p1") == 0);
	assert(devicemap_lookup(map, 0x8056c2e21c000002, name) && strcmp(name, "zt1") == 0);
	for (uint64_t nwid = 0x8056c2e21c000003; nwid <= 0x8056c2e21c000006; nwid++) assert(!devicemap_lookup(map, nwid, name));
	assert(!devicemap_lookup("", 1, name));
}

int main(void) {
	what_is_read();
	only_some_devices();
	offloads_are_switched_off_by_name();
	what_is_refused();
	devicemaps();
	puts("settings: good");
	return 0;
}
