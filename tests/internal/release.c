/* SPDX-License-Identifier: MIT */
/* Which versions of the kernel lose aborts on AArch64, as distributions write them. */
#include "os/linux/linux.h"

#include "kit/unit.h"

static const char *const good[] = {
	"2.6.32-754.el6.x86_64",
	"4.18.0-553.el8_10.aarch64",
	"5.15.0-1051-raspi",
	"6.1.0-50-arm64",
	"6.1.19",
	"6.6.31+rpt-rpi-v8",
	"6.8.0-1019-aws",
	"6.12.48+deb13-arm64",
	"6.12.0-124.8.1.el10_1.aarch64",
	"6.18",
	"6.18.19",
	"6.18.44-fc-v669",
	"6.18-rc7",
	"6.20.1",
	"6.190.0",
	"7.0.14",
	"7.0.14+deb14-arm64",
	"7.0.14-300.fc44.aarch64",
	"7.0.14-rc1",
	"7.0.113",
	"7.0.20-1-ARCH",
	"7.1",
	"7.1.0",
	"7.1.0-14-generic",
	"7.1.0-arch1-1",
	"7.1.0-1-MANJARO-ARM",
	"7.1-src",
	"7.1.3-rc1",
	"7.2-rc1",
	"7.2.12+deb14-arm64",
	"7.10.0",
	"7.19.0",
	"8.0.0",
	"16.19.0",
	"17.0.0",
	"70.0.1",
	"99999999999999999999.0",
	"",
	".",
	"6",
	"6.",
	"-7.0.1",
	" 7.0.1",
	"v7.0.1",
	"next-20260401",
};

static const char *const bad[] = {
	"6.19",
	"6.19.0",
	"6.19-rc1",
	"6.19.0-rc8+",
	"6.19.0-0.rc4.260105g1234abcd.34.fc44.aarch64",
	"6.19.0-061900rc3-generic",
	"6.19.9-061909-generic-64k",
	"6.19.11+deb14-arm64",
	"6.19.14",
	"6.19.99-v8+",
	"7",
	"7.0",
	"7.0-rc1",
	"7.0.0",
	"7.0.0-14-generic",
	"7.0.0-1004-raspi",
	"7.0.0-070000rc1-generic",
	"7.0.1-arch1-1",
	"7.0.9+deb14-arm64",
	"7.0.10-300.fc44.aarch64+64k",
	"7.0.13",
	"7.0.13-v8-16k+",
	"7.1-rc1",
	"7.1.0-rc7",
	"7.1.0-rc7-next-20260601",
	"7.1.0-0.rc3.260501gabcdef012345.31.fc45.aarch64",
	"7.1.0-070100rc2-generic",
};

static void versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (release_loses_aborts(good[i]))
			fail_msg("\"%s\" is taken for a bad version", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!release_loses_aborts(bad[i]))
			fail_msg("\"%s\" is taken for a good version", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
