package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
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
	var dir, dataDir, version string
	var programs []string
	var kubectl, bare bool
	cmd := &cobra.Command{
		Use:   "assets",
		Short: "Write the binaries for envtest, or kubeconfigs and start scripts for other programs",
		Long: `Without --for, writes a directory for envtest's KUBEBUILDER_ASSETS, in which
kube-apiserver and etcd are links to this program:

  KUBEBUILDER_ASSETS=$(kanzen assets --print) go test ./...

With --emulated-version, kube-apiserver behaves as that version of Kubernetes.

With --for, writes a kubeconfig and a start script for each program, and the
keys that it needs. They come from the data directory of a server that
'kanzen serve' has started (--data-dir).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := assetsDir(dir, version, len(programs) > 0)
			if err != nil {
				return fmt.Errorf("--dir: %w", err)
			}
			if len(programs) == 0 {
				if err := envtestAssets(dir, version, kubectl); err != nil {
					return err
				}
				line := dir
				if !bare {
					line = "export KUBEBUILDER_ASSETS=" + quoted(dir)
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
				return err
			}
			if bare {
				return errors.New("--print: goes not together with --for")
			}
			return companionAssets(cmd.OutOrStdout(), dir, dataDir, programs, time.Now())
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "Directory to write to. It is created if it does not exist. (default for envtest: one in the user's cache directory)")
	f.BoolVar(&bare, "print", false, "Print the directory and nothing else, for envtest.")
	f.StringSliceVar(&programs, "for", nil, "Programs to write files for: kube-controller-manager, kube-scheduler, kwok. If empty, files for envtest are written.")
	f.StringVar(&dataDir, "data-dir", config.Standalone().DataDir, "Data directory of the server, for --for.")
	f.StringVar(&version, "emulated-version", "", "Version of Kubernetes that envtest's kube-apiserver behaves as, such as 1.36. (default the newest)")
	f.BoolVar(&kubectl, "kubectl", false, "Also link kubectl, for envtest: the one that 'kanzen kubectl' runs.")
	cmd.SetUsageFunc(usage)
	return cmd
}

// assetsDir returns the directory to write to. That of envtest need not be given; each version has its own.
func assetsDir(dir, version string, programs bool) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	if programs {
		return "", errors.New("must be specified")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("must be specified: %w", err)
	}
	name := "envtest"
	if version != "" {
		name += "-" + version
	}
	return filepath.Join(cache, "kanzen", name), nil
}

// envtestAssets makes the directory for KUBEBUILDER_ASSETS. With a version, kube-apiserver is a script that adds the flag.
func envtestAssets(dir, version string, kubectl bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	server := filepath.Join(dir, "kube-apiserver")
	links := map[string]string{server: self, filepath.Join(dir, "etcd"): self}
	if version != "" {
		if err := config.CheckEmulatedVersion(version); err != nil {
			return fmt.Errorf("--emulated-version: %w", err)
		}
		// The program knows by its name what it is, so the script needs a link of that name.
		delete(links, server)
		links[filepath.Join(dir, "kubernetes-"+version, "kube-apiserver")] = self
	}
	if kubectl {
		path, _, err := findKubectl()
		if err != nil {
			return fmt.Errorf("--kubectl: %w", err)
		}
		if links[filepath.Join(dir, "kubectl")], err = filepath.Abs(path); err != nil {
			return fmt.Errorf("--kubectl: %w", err)
		}
	}
	for path, target := range links {
		if now, err := os.Readlink(path); err == nil && now == target {
			continue // a test that runs may be about to start it
		}
		if err := replace(path, func() error { return os.Symlink(target, path) }); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
	}
	if version != "" {
		script := fmt.Sprintf("%s\nexec %s --emulated-version=%s \"$@\"\n", scriptHead,
			quoted(filepath.Join(dir, "kubernetes-"+version, "kube-apiserver")), quoted(version))
		if err := replace(server, func() error { return os.WriteFile(server, []byte(script), 0o755) }); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
	}
	return nil
}

// scriptHead begins scripts in the place of programs, so that they are known again.
const scriptHead = "#!/bin/sh\n# Written by kanzen assets."

// replace makes a file in the place of a link or of a script that an earlier call made, but of nothing else.
func replace(path string, make func() error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return make()
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink == 0:
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(string(content), scriptHead) {
			return fmt.Errorf("%s exists and was not written by 'kanzen assets'", path)
		}
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return make()
}

// companionAssets writes the files of programs.
func companionAssets(w io.Writer, dir, dataDir string, programs []string, now time.Time) error {
	var chosen []companion
	for _, name := range programs {
		n := slices.IndexFunc(companions, func(c companion) bool { return c.name == name })
		if n < 0 {
			return fmt.Errorf("--for: %q is not one of kube-controller-manager, kube-scheduler, kwok", name)
		}
		chosen = append(chosen, companions[n])
	}
	clients, err := pki.NewClients(filepath.Join(dataDir, "pki"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no server has been started on %s yet; 'kanzen serve --data-dir' creates the keys", dataDir)
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
