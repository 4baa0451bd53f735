"""The lines of crontabs and timers in Debian packages (bookworm, 2026): facts that the importers are tested with.

Of each file only the lines that the tests need are here: no comments, and of a timer only what decides when it fires.
"""

from __future__ import annotations

# ruff: noqa: E501

CRONTABS = {
    ("amavisd-new", "/etc/cron.d/amavisd-new"): [
        "18 */3\t* * *\tamavis\ttest -e /usr/sbin/amavisd-new-cronjob && /usr/sbin/amavisd-new-cronjob sa-sync",
        "24 1  * * *   amavis  test -e /usr/sbin/amavisd-new-cronjob && /usr/sbin/amavisd-new-cronjob sa-clean",
    ],
    ("anacron", "/etc/cron.d/anacron"): [
        "SHELL=/bin/sh",
        "PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin",
        "30 7-23 * * *   root\t[ -x /etc/init.d/anacron ] && if [ ! -d /run/systemd/system ]; then /usr/sbin/invoke-rc.d anacron start >/dev/null; fi",
    ],
    ("apt-mirror", "/etc/cron.d/apt-mirror"): [
        "0 4\t* * *\tapt-mirror\t/usr/bin/apt-mirror > /var/spool/apt-mirror/var/cron.log",
    ],
    ("atop", "/etc/cron.d/atop"): [
        "PATH=/bin:/usr/bin:/sbin:/usr/sbin",
        '0 0 * * * root [ -d "/run/systemd/system" ] || /usr/share/atop/atop.daily&',
    ],
    ("awstats", "/etc/cron.d/awstats"): [
        "MAILTO=root",
        "*/10 * * * * www-data [ -x /usr/share/awstats/tools/update.sh ] && /usr/share/awstats/tools/update.sh",
        "10 03 * * * www-data [ -x /usr/share/awstats/tools/buildstatic.sh ] && /usr/share/awstats/tools/buildstatic.sh",
    ],
    ("backupninja", "/etc/cron.d/backupninja"): [
        "PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin",
        "0 * * * * root if [ -x /usr/sbin/backupninja ]; then /usr/sbin/backupninja; fi",
    ],
    ("buildd", "/etc/cron.d/buildd"): [
        "10,25,40,55  *            *   *   *    buildd   /usr/bin/buildd-uploader",
        "5,20,35,50   *            *   *   *    buildd   /usr/bin/buildd-watcher",
    ],
    ("cacti", "/etc/cron.d/cacti"): [
        "MAILTO=root",
        "*/5 * * * * www-data php /usr/share/cacti/site/poller.php 2>&1 >/dev/null | if [ -f /usr/bin/ts ] ; then ts ; else tee ; fi >> /var/log/cacti/poller-error.log",
    ],
    ("certbot", "/etc/cron.d/certbot"): [
        "SHELL=/bin/sh",
        "PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin",
        "0 */12 * * * root test -x /usr/bin/certbot -a \\! -d /run/systemd/system && perl -e 'sleep int(rand(43200))' && certbot -q renew --no-random-sleep-on-renew",
    ],
    ("clamav-unofficial-sigs", "/etc/cron.d/clamav-unofficial-sigs"): [
        "45 * * * * clamav [ -x /usr/sbin/clamav-unofficial-sigs ] && /usr/sbin/clamav-unofficial-sigs",
    ],
    ("cricket", "/etc/cron.d/cricket"): [
        "MAILTO=root",
        "*/5 * * * *    cricket test -x /usr/share/cricket/collect-subtrees && /usr/share/cricket/collect-subtrees ALL",
    ],
    ("cron-apt", "/etc/cron.d/cron-apt"): [
        "0 4\t* * *\troot\ttest -x /usr/sbin/cron-apt && /usr/sbin/cron-apt",
    ],
    ("cron-daemon-common", "/etc/crontab"): [
        "SHELL=/bin/sh",
        "PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin",
        "17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly",
        "25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }",
        "47 6\t* * 7\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }",
        "52 6\t1 * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.monthly; }",
    ],
    ("debarchiver", "/etc/cron.d/debarchiver"): [
        "*/5 * * * *\tdebarchiver\ttest -x /usr/bin/debarchiver && /usr/bin/debarchiver -so | logger -t debarchiver -p daemon.info",
    ],
    ("dma", "/etc/cron.d/dma"): [
        "*/5 *\t* * *\troot\t[ -x /usr/sbin/dma ] && /usr/sbin/dma -q",
    ],
    ("e2fsprogs", "/etc/cron.d/e2scrub_all"): [
        "30 3 * * 0 root test -e /run/systemd/system || SERVICE_MODE=1 /usr/lib/x86_64-linux-gnu/e2fsprogs/e2scrub_all_cron",
        "10 3 * * * root test -e /run/systemd/system || SERVICE_MODE=1 /sbin/e2scrub_all -A -r",
    ],
    ("fcheck", "/etc/cron.d/fcheck"): [
        '30 */2\t* * *\troot\ttest -x /usr/sbin/fcheck && if ! nocache nice ionice -c3 /usr/sbin/fcheck -asxrf /etc/fcheck/fcheck.cfg >/var/run/fcheck.out 2>&1; then mailx -s "ALERT: [fcheck] `hostname --fqdn`" root </var/run/fcheck.out ; /usr/sbin/fcheck -cadsxlf /etc/fcheck/fcheck.cfg ; fi ; rm -f /var/run/fcheck.out',
    ],
    ("fetch-crl", "/etc/cron.d/fetch-crl"): [
        "42 */6 * * *\troot\t[ ! -f /var/lock/fetch-crl-cron ] || ( [ -f /etc/default/fetch-crl ] && . /etc/default/fetch-crl ; /usr/sbin/fetch-crl -q -r 360 $FETCHCRL_OPTIONS $FETCHCRL_CRON_OPTIONS )",
    ],
    ("ganeti", "/etc/cron.d/ganeti"): [
        "PATH=/sbin:/bin:/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin",
        "@reboot root [ -x /usr/sbin/gnt-cluster ] && /usr/sbin/gnt-cluster upgrade --resume",
        "*/5 * * * * root [ -x /usr/sbin/ganeti-watcher ] && /usr/sbin/ganeti-watcher",
        "45 1 * * * gnt-masterd [ -x /usr/sbin/ganeti-cleaner ] && /usr/sbin/ganeti-cleaner master",
        "45 2 * * * root [ -x /usr/sbin/ganeti-cleaner ] && /usr/sbin/ganeti-cleaner node",
    ],
    ("inn2", "/etc/cron.d/inn2"): [
        "SHELL=/bin/sh",
        "PATH=/usr/lib/news/bin:/sbin:/bin:/usr/sbin:/usr/bin",
        "15 4\t* * * \tnews\ttest -x /usr/lib/news/bin/news.daily && news.daily expireover lowmark delayrm",
        '2 3\t* * *\tnews\t[ -x /usr/sbin/ctlinnd ] && ctlinnd -t 300 -s reload incoming.conf "flush cache"',
        "10 *\t* * *\tnews\t[ -x /usr/bin/rnews ] && rnews -U",
    ],
    ("lockout", "/etc/cron.d/lockout"): [
        "*/1 * * * *\troot\t/usr/bin/lockout unlock >/dev/null 2>&1",
        "@reboot\t        root\t/usr/bin/lockout unlock force >/dev/null 2>&1",
    ],
    ("logcheck", "/etc/cron.d/logcheck"): [
        "PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin",
        "MAILTO=root",
        "@reboot         logcheck    if [ -x /usr/sbin/logcheck ]; then nice -n10 /usr/sbin/logcheck -R; fi",
        "2 * * * *       logcheck    if [ -x /usr/sbin/logcheck ]; then nice -n10 /usr/sbin/logcheck; fi",
    ],
    ("mailman3-web", "/etc/cron.d/mailman3-web"): [
        "* *     * * *      www-data     [ -f /usr/bin/django-admin ] && flock -n /var/run/mailman3-web/cron.minutely /usr/share/mailman3-web/manage.py runjobs minutely",
        "2,17,32,47 * * * * www-data     [ -f /usr/bin/django-admin ] && flock -n /var/run/mailman3-web/cron.quarter_hourly /usr/share/mailman3-web/manage.py runjobs quarter_hourly",
        "@hourly            www-data     [ -f /usr/bin/django-admin ] && flock -n /var/run/mailman3-web/cron.hourly /usr/share/mailman3-web/manage.py runjobs hourly",
        "@daily             www-data     [ -f /usr/bin/django-admin ] && flock -n /var/run/mailman3-web/cron.daily /usr/share/mailman3-web/manage.py runjobs daily",
        "@weekly            www-data     [ -f /usr/bin/django-admin ] && flock -n /var/run/mailman3-web/cron.weekly /usr/share/mailman3-web/manage.py runjobs weekly",
        "@monthly           www-data     [ -f /usr/bin/django-admin ] && flock -n /var/run/mailman3-web/cron.monthly /usr/share/mailman3-web/manage.py runjobs monthly",
        "@yearly            www-data     [ -f /usr/bin/django-admin ] && flock -n /var/run/mailman3-web/cron.yearly /usr/share/mailman3-web/manage.py runjobs yearly",
    ],
    ("mailman3", "/etc/cron.d/mailman3"): [
        "SHELL=/bin/sh",
        "PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin",
        "0  8 * * *  list\tif [ -x /usr/bin/mailman ]; then /usr/bin/mailman notify; fi",
        "0 12 * * *  list\tif [ -x /usr/bin/mailman ]; then /usr/bin/mailman digests --periodic; fi",
    ],
    ("mdadm", "/etc/cron.d/mdadm"): [
        "57 0 * * 0 root if [ -x /usr/share/mdadm/checkarray ] && [ $(date +\\%d) -le 7 ]; then /usr/share/mdadm/checkarray --cron --all --idle --quiet; fi",
    ],
    ("mlmmj", "/etc/cron.d/mlmmj"): [
        "0 */2 * * * root /usr/bin/test -x /usr/bin/mlmmj-maintd && /usr/bin/mlmmj-maintd -F -d /var/spool/mlmmj",
    ],
    ("munin-node", "/etc/cron.d/munin-node"): [
        "MAILTO=root",
        "*/5 * * * *\troot if [ -x /etc/munin/plugins/apt_all ]; then /etc/munin/plugins/apt_all update 7200 12 >/dev/null; elif [ -x /etc/munin/plugins/apt ]; then /etc/munin/plugins/apt update 7200 12 >/dev/null; fi",
    ],
    ("munin", "/etc/cron.d/munin"): [
        "MAILTO=root",
        "*/5 * * * *     munin if [ -x /usr/bin/munin-cron ]; then /usr/bin/munin-cron; fi",
        "14 10 * * *     munin if [ -x /usr/share/munin/munin-limits ]; then /usr/share/munin/munin-limits --force --contact nagios --contact old-nagios; fi",
        '27 03 * * *     munin htmldir=$({ cat /etc/munin/munin.conf /etc/munin/munin-conf.d/* 2>/dev/null || true; } | sed -nE \'s/^\\s*htmldir\\s+(\\S.*)$/\\1/p\' | tail -1); htmldir=${htmldir:-/var/cache/munin/www}; if [ -d "$htmldir" ]; then find "$htmldir/" -type f -name "*.html" -mtime +30 -delete; find "$htmldir/" -mindepth 1 -type d -empty -delete; fi',
        '32 03 * * *     www-data cgitmpdir=$({ cat /etc/munin/munin.conf /etc/munin/munin-conf.d/* 2>/dev/null || true; } | sed -nE \'s/^\\s*cgitmpdir\\s+(\\S.*)$/\\1/p\' | tail -1); cgitmpdir=${cgitmpdir:-/var/lib/munin/cgi-tmp}; if [ -d "$cgitmpdir" ]; then find "$cgitmpdir/" -type f -mtime +1 -delete; find "$cgitmpdir/" -mindepth 1 -type d -empty -delete; fi',
    ],
    ("nordugrid-arc-nordugridmap", "/etc/cron.d/nordugridmap"): [
        "11 3,9,12,15,21 * * * root /usr/sbin/nordugridmap",
    ],
    ("ntpsec", "/etc/cron.d/ntpsec"): [
        "25 6     * * * root if [ ! -d /run/systemd/system ] && [ -x /usr/libexec/ntpsec/rotate-stats ] ; then /usr/libexec/ntpsec/rotate-stats ; fi",
    ],
    ("oar-server", "/etc/cron.d/oar-server"): [
        "0 * * * * root [ -x /usr/sbin/oaraccounting ] && /usr/sbin/oaraccounting > /dev/null",
    ],
    ("openssh-known-hosts", "/etc/cron.d/openssh-known-hosts"): [
        "0 *\t* * *\troot\t[ -x /usr/sbin/update-openssh-known-hosts ] && { sleep `od -An -N1 -tu1 /dev/urandom`; /usr/sbin/update-openssh-known-hosts; }",
    ],
    ("php-common", "/etc/cron.d/php"): [
        "09,39 *     * * *     root   [ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/systemd/system ]; then /usr/lib/php/sessionclean; fi",
    ],
    ("roundcube-core", "/etc/cron.d/roundcube-core"): [
        "0 5 * * * www-data test -d /run/systemd/system || /usr/share/roundcube/bin/cleandb.sh >/dev/null",
        "5,35 * * * * www-data test -d /run/systemd/system || /usr/share/roundcube/bin/gc.sh",
    ],
    ("rsnapshot", "/etc/cron.d/rsnapshot"): [
        "0 */4\t\t* * *\t\troot\t/usr/bin/rsnapshot alpha",
        "30 3  \t* * *\t\troot\t/usr/bin/rsnapshot beta",
        "0  3  \t* * 1\t\troot\t/usr/bin/rsnapshot gamma",
        "30 2  \t1 * *\t\troot\t/usr/bin/rsnapshot delta",
    ],
    ("sa-exim", "/etc/cron.d/greylistclean"): [
        "33 * * * * Debian-exim [ -x /usr/share/sa-exim/greylistclean ] && /usr/share/sa-exim/greylistclean",
    ],
    ("sanoid", "/etc/cron.d/sanoid"): [
        "PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin",
        "*/15 * * * * root [ -f /etc/sanoid/sanoid.conf ] && if [ ! -d /run/systemd/system ]; then TZ=UTC /usr/sbin/sanoid --cron --quiet; fi",
    ],
    ("sqwebmail", "/etc/cron.d/sqwebmail"): [
        "16 * * * * bin [ -x /usr/lib/courier/sqwebmail/cleancache.pl ] && /usr/lib/courier/sqwebmail/cleancache.pl",
    ],
    ("sysstat", "/etc/cron.d/sysstat"): [
        "PATH=/usr/lib/sysstat:/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        "5-55/10 * * * * root command -v debian-sa1 > /dev/null && debian-sa1 1 1",
        "59 23 * * * root command -v debian-sa1 > /dev/null && debian-sa1 60 2",
    ],
    ("tiger", "/etc/cron.d/tiger"): [
        "DEFAULT=/etc/default/tiger",
        "NICETIGER=10",
        '0 * * * *      root    test -x /usr/sbin/tigercron && { [ -r "$DEFAULT" ] && . "$DEFAULT" ; nice -n$NICETIGER /usr/sbin/tigercron -q ; }',
    ],
    ("tuptime", "/etc/cron.d/tuptime"): [
        "*/5 * * * *   _tuptime    if [ ! -d /run/systemd/system ] && [ -x /usr/bin/tuptime ]; then /usr/bin/tuptime -q > /dev/null; fi",
    ],
}
"""By package and path. Those of apt-mirror and rsnapshot are comments in the package."""

TIMERS = {
    ("acmetool", "acmetool.timer"): ["OnCalendar=*-*-* 00,12:00:00", "RandomizedDelaySec=1h", "Persistent=yes"],
    ("aide-common", "dailyaidecheck.timer"): ["OnCalendar=*-*-* 01:50:00", "RandomizedDelaySec=2h", "Persistent=true"],
    ("anacron", "anacron.timer"): ["OnCalendar=*-*-* 07..23:30", "RandomizedDelaySec=5m", "Persistent=true"],
    ("apt-listbugs", "apt-listbugs.timer"): ["OnActiveSec=5min", "OnCalendar=*-*-* *:20", "RandomizedDelaySec=20min"],
    ("apt", "apt-daily-upgrade.timer"): ["OnCalendar=*-*-* 6:00", "RandomizedDelaySec=60m", "Persistent=true"],
    ("apt", "apt-daily.timer"): ["OnCalendar=*-*-* 6,18:00", "RandomizedDelaySec=12h", "Persistent=true"],
    ("atop", "atop-rotate.timer"): ["OnCalendar=daily"],
    ("borgmatic", "borgmatic.timer"): ["OnCalendar=daily", "Persistent=true", "RandomizedDelaySec=3h"],
    ("btrbk", "btrbk.timer"): ["OnCalendar=daily", "AccuracySec=10min", "Persistent=true"],
    ("btrfsmaintenance", "btrfs-balance.timer"): ["OnCalendar=monthly", "AccuracySec=1h", "Persistent=true"],
    ("btrfsmaintenance", "btrfs-defrag.timer"): ["OnCalendar=monthly", "AccuracySec=1h", "Persistent=true"],
    ("btrfsmaintenance", "btrfs-scrub.timer"): ["OnCalendar=monthly", "AccuracySec=1h", "Persistent=true"],
    ("btrfsmaintenance", "btrfs-trim.timer"): ["OnCalendar=monthly", "AccuracySec=1h", "Persistent=true"],
    ("certbot", "certbot.timer"): ["OnCalendar=*-*-* 00,12:00:00", "RandomizedDelaySec=43200", "Persistent=true"],
    ("chrony", "chrony-dnssrv@.timer"): ["OnActiveSec=0", "OnUnitInactiveSec=1h"],
    ("dpkg", "dpkg-db-backup.timer"): ["OnCalendar=daily"],
    ("e2fsprogs", "e2scrub_all.timer"): ["OnCalendar=Sun *-*-* 03:10:00", "RandomizedDelaySec=60", "Persistent=true"],
    ("etckeeper", "etckeeper.timer"): ["OnBootSec=15min", "OnUnitActiveSec=1d"],
    ("exim4-base", "exim4-base.timer"): ["OnCalendar=daily", "AccuracySec=12h", "Persistent=true"],
    ("fetch-crl", "fetch-crl.timer"): ["OnBootSec=1min", "OnUnitActiveSec=6h"],
    ("fwupd", "fwupd-refresh.timer"): ["OnCalendar=*-*-* *:00:00", "RandomizedDelaySec=1h", "Persistent=true"],
    ("logrotate", "logrotate.timer"): ["OnCalendar=daily", "AccuracySec=1h", "Persistent=true"],
    ("lynis", "lynis.timer"): ["OnCalendar=daily", "RandomizedDelaySec=1800", "Persistent=false"],
    ("man-db", "man-db.timer"): ["OnCalendar=daily", "RandomizedDelaySec=12h", "Persistent=true"],
    ("mdadm", "mdadm-last-resort@.timer"): ["OnActiveSec=30"],
    ("mdadm", "mdcheck_continue.timer"): ["OnCalendar= 1:05:00"],
    ("mdadm", "mdcheck_start.timer"): ["OnCalendar=Sun *-*-1..7 1:00:00"],
    ("mdadm", "mdmonitor-oneshot.timer"): ["OnCalendar= 2:00:00"],
    ("ntpsec", "ntpsec-rotate-stats.timer"): ["OnCalendar=*-*-* 06:25:00", "Persistent=true"],
    ("pcp", "pmfind.timer"): ["OnBootSec=1min", "OnUnitActiveSec=1min"],
    ("pcp", "pmie_check.timer"): ["OnBootSec=1min", "OnCalendar=*-*-* *:28:00", "OnCalendar=*-*-* *:58:00"],
    ("pcp", "pmie_daily.timer"): ["Persistent=true", "OnCalendar=*-*-* 00:08:00"],
    ("pcp", "pmie_farm_check.timer"): ["OnBootSec=1min", "OnCalendar=*-*-* *:28:10", "OnCalendar=*-*-* *:58:10"],
    ("pcp", "pmlogger_check.timer"): ["OnBootSec=1min", "OnCalendar=*-*-* *:25:00", "OnCalendar=*-*-* *:55:00"],
    ("pcp", "pmlogger_daily.timer"): ["Persistent=true", "OnCalendar=*-*-* 00:10:00"],
    ("pcp", "pmlogger_farm_check.timer"): ["OnBootSec=1min", "OnCalendar=*-*-* *:25:10", "OnCalendar=*-*-* *:55:10"],
    ("php-common", "phpsessionclean.timer"): ["OnCalendar=*-*-* *:09,39:00", "Persistent=true"],
    ("plocate", "plocate-updatedb.timer"): [
        "OnCalendar=daily",
        "RandomizedDelaySec=12h",
        "AccuracySec=20min",
        "Persistent=true",
    ],
    ("podman", "podman-auto-update.timer"): ["OnCalendar=daily", "RandomizedDelaySec=900", "Persistent=true"],
    ("postgresql-common", "pg_basebackup@.timer"): ["OnCalendar=weekly", "RandomizedDelaySec=1h"],
    ("postgresql-common", "pg_compresswal@.timer"): ["OnCalendar=daily", "RandomizedDelaySec=1h"],
    ("postgresql-common", "pg_dump@.timer"): ["OnCalendar=weekly", "RandomizedDelaySec=1h"],
    ("prometheus-node-exporter-collectors", "prometheus-node-exporter-apt.timer"): [
        "OnBootSec=0",
        "OnUnitActiveSec=15min",
    ],
    ("prometheus-node-exporter-collectors", "prometheus-node-exporter-ipmitool-sensor.timer"): [
        "OnBootSec=0",
        "OnUnitActiveSec=1min",
    ],
    ("prometheus-node-exporter-collectors", "prometheus-node-exporter-mellanox-hca-temp.timer"): [
        "OnBootSec=0",
        "OnUnitActiveSec=1min",
    ],
    ("prometheus-node-exporter-collectors", "prometheus-node-exporter-nvme.timer"): [
        "OnBootSec=0",
        "OnUnitActiveSec=15min",
    ],
    ("prometheus-node-exporter-collectors", "prometheus-node-exporter-smartmon.timer"): [
        "OnBootSec=0",
        "OnUnitActiveSec=15min",
    ],
    ("roundcube-core", "roundcube-cleandb.timer"): ["OnCalendar=*-*-* 00:05", "Persistent=true"],
    ("roundcube-core", "roundcube-gc.timer"): ["OnCalendar=*-*-* *:05,35:00", "Persistent=true"],
    ("sanoid", "sanoid.timer"): ["OnCalendar=*:0/15", "Persistent=true"],
    ("snapper", "snapper-boot.timer"): ["OnBootSec=1"],
    ("snapper", "snapper-cleanup.timer"): ["OnBootSec=10m", "OnUnitActiveSec=1d"],
    ("snapper", "snapper-timeline.timer"): ["OnCalendar=hourly"],
    ("spamassassin", "spamassassin-maintenance.timer"): [
        "OnCalendar=*-*-* 6:00",
        "RandomizedDelaySec=60m",
        "Persistent=true",
    ],
    ("sysstat", "sysstat-collect.timer"): ["OnCalendar=*:00/10"],
    ("sysstat", "sysstat-summary.timer"): ["OnCalendar=00:07:00"],
    ("systemd-cron", "cron-daily.timer"): ["Persistent=true", "OnCalendar=*-*-* 06:25:00", "Unit=cron-daily.target"],
    ("systemd-cron", "cron-hourly.timer"): ["OnCalendar=*-*-* *:17:00", "Unit=cron-hourly.target"],
    ("systemd-cron", "cron-monthly.timer"): [
        "Persistent=true",
        "OnCalendar=*-*-1 06:52:00",
        "Unit=cron-monthly.target",
    ],
    ("systemd-cron", "cron-weekly.timer"): [
        "Persistent=true",
        "OnCalendar=Mon *-*-* 06:47:00",
        "Unit=cron-weekly.target",
    ],
    ("systemd-cron", "cron-yearly.timer"): ["Persistent=true", "OnCalendar=yearly", "Unit=cron-yearly.target"],
    ("systemd", "systemd-tmpfiles-clean.timer"): ["OnBootSec=15min", "OnUnitActiveSec=1d"],
    ("tuptime", "tuptime-sync.timer"): ["OnBootSec=1min", "OnCalendar=*:0/5", "Unit=tuptime-sync.service"],
    ("util-linux", "fstrim.timer"): [
        "OnCalendar=weekly",
        "AccuracySec=1h",
        "Persistent=true",
        "RandomizedDelaySec=6000",
    ],
}
"""By package and name."""
