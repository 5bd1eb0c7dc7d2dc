package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Install installs those of Debian's packages whose file is not there; packages are named by a file that each brings.
func Install(ctx context.Context, packages map[string]string) error {
	var missing []string
	for path, name := range packages {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks what Debian has in the packages %v, and there is no apt-get to install them", missing)
	}
	fmt.Printf("installing %v\n", missing)
	const lock = "DPkg::Lock::Timeout=300"
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, missing...)} {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-qq", "-o", lock}, args...)...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return nil
}
