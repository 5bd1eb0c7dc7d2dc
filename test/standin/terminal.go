package standin

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// OpenTerminal opens a pseudo terminal: both of its ends.
func OpenTerminal() (control, terminal *os.File, err error) {
	control, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		_ = control.Close()
		return nil, nil, err
	}
	return control, terminal, nil
}

// Resize sets the size of a terminal.
func Resize(terminal *os.File, width, height uint16) error {
	return unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width})
}

// runInTerminal runs a process in a terminal of its own.
func runInTerminal(cmd *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	control, terminal, err := OpenTerminal()
	if err != nil {
		return err
	}
	defer control.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	err = cmd.Start()
	_ = terminal.Close()
	if err != nil {
		return err
	}
	if resize != nil {
		go func() {
			for size := range resize {
				_ = Resize(control, size.Width, size.Height)
			}
		}()
	}
	if in != nil {
		go func() { _, _ = io.Copy(control, in) }()
	}
	if out != nil {
		_, _ = io.Copy(out, control) // ends with an error when the process has ended
	}
	return cmd.Wait()
}
