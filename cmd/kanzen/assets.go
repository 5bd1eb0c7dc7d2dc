package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/pki"
)

// companion is a program that works with the server.
type companion struct {
	name string
	user pki.Subject
	// keys says that it needs the authority and its keys.
	keys bool
	// flags are its further flags; %s is the directory.
	flags []string
	// config is its configuration, in NAME.yaml; empty: it needs none.
	config string
}

//go:embed kwok.yaml
var kwokStages string

// companions are the programs that --for accepts. The first two are the users to which the bootstrap policy gives the
// roles of the same names.
var companions = []companion{
	{"kube-controller-manager", pki.Subject{Name: "system:kube-controller-manager"}, true, []string{
		"--authentication-kubeconfig=%s/kube-controller-manager.kubeconfig", "--authorization-kubeconfig=%s/kube-controller-manager.kubeconfig",
		"--use-service-account-credentials=true", "--root-ca-file=%s/ca.crt", "--service-account-private-key-file=%s/sa.key",
		"--cluster-signing-cert-file=%s/ca.crt", "--cluster-signing-key-file=%s/ca.key", "--bind-address=127.0.0.1",
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller"}, ""},
	{"kube-scheduler", pki.Subject{Name: "system:kube-scheduler"}, false, []string{
		"--authentication-kubeconfig=%s/kube-scheduler.kubeconfig", "--authorization-kubeconfig=%s/kube-scheduler.kubeconfig", "--bind-address=127.0.0.1"}, ""},
	// There is no role for kwok from the start: it plays all kubelets at once. kwokctl lets it act as an administrator too.
	{"kwok", pki.Subject{Name: "kwok-controller", Groups: []string{"system:masters"}}, false, []string{
		"--config=%s/kwok.yaml", "--manage-all-nodes=true", "--node-ip=10.0.0.1", "--cidr=10.244.0.0/16", "--node-lease-duration-seconds=40"}, kwokStages},
}

// assetsCommand writes what other programs need beside the server.
func assetsCommand() *cobra.Command {
	var dir, dataDir string
	var programs []string
	var kubectl bool
	cmd := &cobra.Command{
		Use:   "assets",
		Short: "Write what other programs need: kubeconfigs and start lines, or the binaries of envtest",
		Long: `Without --for, the directory becomes what envtest's KUBEBUILDER_ASSETS names: kube-apiserver and etcd are
links to this program. With --for, it gets a kubeconfig and a start line for each program, and the keys that it
needs, from the files of a server that 'kanzen serve' has started (--data-dir).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("--dir: must be specified")
			}
			dir, err := filepath.Abs(dir)
			if err != nil {
				return fmt.Errorf("--dir: %w", err)
			}
			if len(programs) == 0 {
				return envtestAssets(cmd.OutOrStdout(), dir, kubectl)
			}
			return companionAssets(cmd.OutOrStdout(), dir, dataDir, programs, time.Now())
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "Directory to write to; made if missing.")
	f.StringSliceVar(&programs, "for", nil, "Programs to write files for: kube-controller-manager, kube-scheduler, kwok; none: envtest.")
	f.StringVar(&dataDir, "data-dir", config.Standalone().DataDir, "Data directory of the server, for --for.")
	f.BoolVar(&kubectl, "kubectl", false, "Also link the kubectl in the PATH, for envtest.")
	cmd.SetUsageFunc(usage)
	return cmd
}

// envtestAssets makes the directory for KUBEBUILDER_ASSETS.
func envtestAssets(w io.Writer, dir string, kubectl bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	links := map[string]string{"kube-apiserver": self, "etcd": self}
	if kubectl {
		path, err := exec.LookPath("kubectl")
		if err != nil {
			return fmt.Errorf("--kubectl: %w", err)
		}
		if links["kubectl"], err = filepath.Abs(path); err != nil {
			return fmt.Errorf("--kubectl: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	for name, target := range links {
		if err := replaceLink(filepath.Join(dir, name), target); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
	}
	_, err = fmt.Fprintf(w, "export KUBEBUILDER_ASSETS=%s\n", quoted(dir))
	return err
}

// replaceLink makes path a link to target. It replaces a link, but nothing else.
func replaceLink(path, target string) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("%s exists and is not a link", path)
	default:
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Symlink(target, path)
}

// companionAssets writes the files of programs.
func companionAssets(w io.Writer, dir, dataDir string, programs []string, now time.Time) error {
	var chosen []companion
	for _, name := range programs {
		n := slices.IndexFunc(companions, func(c companion) bool { return c.name == name })
		if n < 0 {
			return fmt.Errorf("--for: %q is none of kube-controller-manager, kube-scheduler, kwok", name)
		}
		chosen = append(chosen, companions[n])
	}
	clients, err := pki.NewClients(filepath.Join(dataDir, "pki"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no server has been started on %s yet; 'kanzen serve --data-dir' makes the keys", dataDir)
	}
	if err != nil {
		return err
	}
	for _, c := range chosen {
		if c.keys {
			if err := clients.CopyAuthority(dir); err != nil {
				return fmt.Errorf("--dir: %w", err)
			}
		}
		if err := clients.Write(filepath.Join(dir, c.name+".kubeconfig"), c.user, now); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
		script := filepath.Join(dir, c.name+".sh")
		for path, content := range map[string]string{script: c.startLine(dir) + "\n", filepath.Join(dir, c.name+".yaml"): c.config} {
			if content == "" {
				continue
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				return fmt.Errorf("--dir: %w", err)
			}
		}
		if _, err := fmt.Fprintf(w, "sh %s\n", quoted(script)); err != nil {
			return err
		}
	}
	return nil
}

// startLine returns the command that starts the program. Further flags may be given to the script.
func (c companion) startLine(dir string) string {
	line := "exec " + c.name + " " + quoted("--kubeconfig="+filepath.Join(dir, c.name+".kubeconfig"))
	for _, f := range c.flags {
		line += " " + quoted(strings.ReplaceAll(f, "%s", dir))
	}
	return line + ` "$@"`
}

// quoted returns a word for a shell.
func quoted(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
