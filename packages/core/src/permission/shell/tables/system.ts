import type { SubcommandTable } from '../subcommands.ts';

/** Packages and services of the system. */
export const system: Readonly<Record<string, SubcommandTable>> = {
  'apt apt-get aptitude': {
    options: '-q -qq --quiet -v --version -h --help',
    changing:
      '-o= --option= -c= --config-file= -t= --target-release= --default-release= -a= ' +
      '--host-architecture= -y --yes --assume-yes --assume-no -s --simulate --dry-run -d ' +
      '--download-only -f --fix-broken -m --fix-missing -u --no-install-recommends --reinstall ' +
      '--allow-unauthenticated --purge -V --verbose-versions -P= --build-profiles=',
    readers: `
      depends -i --important --installed --recurse
      list -a --all-versions --installed --upgradable --upgradeable --manual-installed -v --verbose
      madison
      policy
      rdepends -i --important --installed --recurse
      search -n --names-only -f --full
      show -a --all-versions --no-all-versions
      showsrc`,
    aliases: `
      auto-clean|autoclean
      auto-remove|autoremove
      dist-upgrade|full-upgrade`,
  },
  'apt-cache': {
    options: '-q -qq --quiet -v --version -h --help',
    changing: '-o= --option= -c= --config-file= -p= --pkg-cache= -s= --src-cache=',
    readers: `
      depends -i --important --installed --recurse --no-suggests --no-recommends
      dotty
      dump
      madison
      pkgnames
      policy
      rdepends -i --important --installed --recurse
      search -n --names-only -f --full
      show -a --all-versions --no-all-versions
      showpkg
      showsrc
      stats
      unmet -i --important`,
  },
  ip: {
    options:
      '-V -Version -s -stats -statistics -d -details -r -resolve -h -human -human-readable -iec -o ' +
      '-oneline -c -color -j -json -p -pretty -br -brief -t -timestamp -ts -4 -6 -B -M -0 -a -all ' +
      '-f= -family= -l= -loops= -rc= -rcvbuf=',
    changing: '-b= -batch= -force -n= -netns=',
    abbreviates: true,
    readers: `
      address!
      address show
      link!
      link show
      maddress!
      maddress show
      neighbour!
      neighbour show
      route!
      route get
      route show
      rule!
      rule show`,
    aliases: `
      address|addr|a|ad|add|addre|addres
      address show|addr show|a show|a s|a sh|addr s|addr list|address list|addr ls|a ls
      link|l|li|lin
      link set|link s|link se|l set|l s|l se
      link show|link list|link ls|l show|link sh
      neighbour|neigh|neighbor|n|ne
      neighbour show|neigh show|neigh list|n show
      netns|netn
      route|r|ro|rou|rout
      route show|r show|route list|route ls|r s
      rule|ru|rul
      rule show|rule list`,
    groups: 'netns tunnel tuntap vrf xfrm',
    others:
      'addrlabel fou help ila ioam l2tp macsec mptcp mroute mrule monitor nexthop ntable ntbl ' +
      'sr stats tap tcpmetrics tcp_metrics token vrf',
  },
  systemctl: {
    options:
      '--version --system --user -t= --type= --state= --failed -p= --property= -P= -a --all -l --full ' +
      '--no-pager --no-legend --plain -r --recursive --reverse --after --before --value -q --quiet ' +
      '-n= --lines= -o= --output= --show-types --with-dependencies --no-ask-password -h --help',
    changing:
      '-H= --host= -M= --machine= --root= --image= --runtime --global --now -f --force -s= --signal= ' +
      '--kill-whom= --job-mode= --no-block --wait --preset-mode= --firmware-setup --no-reload --no-wall ' +
      '--message= --what= --check-inhibitors= -i --dry-run',
    readers: `
      cat
      get-default
      is-active
      is-enabled
      is-failed
      is-system-running
      list-automounts
      list-dependencies
      list-jobs
      list-machines
      list-sockets
      list-timers
      list-unit-files
      list-units
      show
      status`,
  },
  'apk dnf emerge flatpak guix launchctl loginctl lxc microdnf nmcli pkg port snap ufw virsh yum zypper zfs zpool hostnamectl localectl timedatectl networkctl resolvectl':
    {
      options: '--version',
      aliases: `
        erase|remove|rm
        in|install
        se|search
        up|update|upgrade`,
    },
};
