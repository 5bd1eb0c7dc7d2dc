package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--data-dir DIR] ARGS...",
		Short: "Run the kubectl on PATH for the server of a data directory",
		Long: `Runs the kubectl on PATH with KUBECONFIG set to the kubeconfig of the server's
administrator. If you give --data-dir, it must come first.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, args := dataDirOf(args)
			if len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
				return cmd.Help()
			}
			path, err := adminKubeconfig(dir)
			if err != nil {
				return err
			}
			program, err := exec.LookPath("kubectl")
			if err != nil {
				return errors.New("there is no kubectl on PATH; see https://kubernetes.io/docs/tasks/tools for how to install it")
			}
			return replaceBy(program, args, append(os.Environ(), "KUBECONFIG="+path))
		},
	}
}

// dataDirOf takes a leading --data-dir off kubectl's arguments.
func dataDirOf(args []string) (dir string, rest []string) {
	dir = config.Standalone().DataDir
	switch {
	case len(args) > 1 && args[0] == "--data-dir":
		return args[1], args[2:]
	case len(args) > 0 && strings.HasPrefix(args[0], "--data-dir="):
		return strings.TrimPrefix(args[0], "--data-dir="), args[1:]
	}
	return dir, args
}

// adminKubeconfig returns the path of the kubeconfig of a server's administrator.
func adminKubeconfig(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("--data-dir: name the server's data directory")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "pki", "admin.kubeconfig")
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return "", fmt.Errorf("no server has been started on %s yet; 'kanzen serve%s' creates the kubeconfig", dir, dataDirArg(dir))
	} else if err != nil {
		return "", err
	}
	return path, nil
}

// dataDirArg returns the flag for a data directory that is not the default.
func dataDirArg(dir string) string {
	if dir == config.Standalone().DataDir {
		return ""
	}
	return " --data-dir " + shellWord(dir)
}

// shellWord quotes a text for a shell if it needs to be. Paths of Windows are left as they are there.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r == '/' || r == '.' || r == '_' || r == '-' || r == ':' || runtime.GOOS == "windows" && (r == '\\' || r == '~') || r == '+' || r == '=' || r == ',' || r == '@' ||
			'0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
