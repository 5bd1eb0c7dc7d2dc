package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--data-dir DIR] ARGS...",
		Short: "Run kubectl for the server of a data directory",
		Long: `Runs kubectl with KUBECONFIG set to the kubeconfig of the server's administrator:
the kanzen-kubectl that a release has beside kanzen, or else the kubectl on PATH.
If you give --data-dir, it must come first.`,
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
			program, name, err := findKubectl()
			if err != nil {
				return err
			}
			return replaceBy(program, name, args, append(os.Environ(), "KUBECONFIG="+path))
		},
		ValidArgsFunction: completeKubectl,
	}
}

// findKubectl returns the program to run and its name for itself: kubectl of a release knows by it that what it tells the user to type
// begins with 'kanzen kubectl'.
func findKubectl() (program, name string, err error) {
	self, err := os.Executable()
	if err != nil { // Linux without /proc
		self, err = exec.LookPath(os.Args[0])
	}
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", "", fmt.Errorf("find this program: %w", err)
	}
	return kubectlBeside(filepath.Dir(self))
}

// kubectlBeside looks for kubectl in the directory of this program, then on PATH. The system decides what is a program: Windows by the
// ends of names, others by the mode of a file.
func kubectlBeside(dir string) (program, name string, err error) {
	if program, err = exec.LookPath(filepath.Join(dir, "kanzen-kubectl")); err == nil {
		return program, "kanzen kubectl", nil
	}
	if program, err = exec.LookPath("kubectl"); err == nil {
		return program, filepath.Base(program), nil
	}
	return "", "", fmt.Errorf("there is no kubectl: no kanzen-kubectl in %s, where a release has it beside kanzen ('make kubectl' in a checkout builds it), "+
		"and no kubectl on PATH (https://kubernetes.io/docs/tasks/tools)", dir)
}

// completeKubectl lets kubectl complete its own words. It answers with lines, and with a number for the shell on the last one.
func completeKubectl(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 && args[0] == "--data-dir" {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	dir, args := dataDirOf(args)
	program, _, err := findKubectl()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	kubectl := exec.CommandContext(cmd.Context(), program, append(append([]string{cobra.ShellCompRequestCmd}, args...), word)...)
	// Without a server it completes what needs none. It does not ask another one.
	kubectl.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "pki", "admin.kubeconfig"))
	out, err := kubectl.Output()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := len(lines) - 1
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
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
