package trim

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What userfaultfd(2) and ioctl_userfaultfd(2) call UFFD_USER_MODE_ONLY, UFFD_API, UFFDIO_API, UFFDIO_REGISTER,
// UFFD_FEATURE_WP_ASYNC and UFFDIO_REGISTER_MODE_WP. Where a processor's Linux has other numbers, the first call is refused.
const (
	userModeOnly       = 1
	apiVersion         = 0xaa
	apiCall            = 0xc018aa3f
	registerCall       = 0xc020aa00
	asynchronousWrites = 1 << 15
	trackWrites        = 2
)

// byPage makes the system map a page of these mappings when it is used. Linux maps the sixteen pages around it at once, or two megabytes, which
// is right for programs that go on to use them; an idle server uses 5 MB of its program here and there, and has 26 MB resident.
// The page faults that this adds, one for each page instead of sixteen, are those of the first requests after an idle time.
//
// No call asks for it. But Linux maps single pages where it was asked to track writes, and here nothing is ever written. The
// file that is returned keeps it so until it is closed; nil: this system or its policy does not allow it, and nothing has changed.
func byPage(mappings []mapping) *os.File {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, userModeOnly|unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		return nil
	}
	tracker := os.NewFile(fd, "userfaultfd")
	api := struct{ version, features, calls uint64 }{apiVersion, asynchronousWrites, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, apiCall, uintptr(unsafe.Pointer(&api))); errno != 0 {
		_ = tracker.Close()
		return nil
	}
	for _, m := range mappings {
		register := struct{ from, length, mode, calls uint64 }{uint64(m.from), uint64(m.to - m.from), trackWrites, 0}
		// An error leaves this mapping as it was.
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, registerCall, uintptr(unsafe.Pointer(&register)))
		// A file that was written not long ago can be in huge pages of the cache, of which one is mapped as a whole.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_NOHUGEPAGE)
	}
	return tracker
}
