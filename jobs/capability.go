//go:build linux

package jobs

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A capability is one of capabilities(7).
type capability int

const (
	capKill    capability = unix.CAP_KILL
	capSetGID  capability = unix.CAP_SETGID
	capSetUID  capability = unix.CAP_SETUID
	capSysNice capability = unix.CAP_SYS_NICE
)

func (c capability) String() string {
	return map[capability]string{
		capKill: "CAP_KILL", capSetGID: "CAP_SETGID", capSetUID: "CAP_SETUID", capSysNice: "CAP_SYS_NICE",
	}[c]
}

// lacking returns which of the capabilities the calling thread has not in effect. That, and not the
// number 0, is what makes root: in a container it may have none.
func lacking(all ...capability) []capability {
	var data [2]unix.CapUserData // one word each for the lower 32 and the others
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if unix.Capget(&hdr, &data[0]) != nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c capability) bool {
		return data[c/32].Effective&(1<<(c%32)) != 0
	})
}

// ambient are the capabilities that the calling thread's programs get as they are (capabilities(7),
// ambient set). A program that runs as somebody else must not have them: with CAP_SETUID it could
// become anybody. The kernel takes them away itself only when the user 0 becomes another one.
func ambient() (all []uintptr) {
	for c := uintptr(0); c <= 63; c++ {
		if set, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, c, 0, 0); err != nil {
			break // beyond the last one
		} else if set == 1 {
			all = append(all, c)
		}
	}
	return all
}

func dropAmbient() { _ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) }

func raiseAmbient(all []uintptr) {
	for _, c := range all {
		_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0)
	}
}
