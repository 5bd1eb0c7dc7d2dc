package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
)

func encryptionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "encryption",
		Short: "Begin to encrypt stored objects, show how they are encrypted, and encrypt them again with the current key",
		Args:  commandsOnly,
		RunE:  showHelp,
	}
	cmd.AddCommand(encryptionInitCommand(), sealedCommand(&cobra.Command{
		Use:   "status",
		Short: "Count the values that each key has encrypted, and say which keys can be removed",
	}, http.MethodGet), sealedCommand(&cobra.Command{
		Use:   "rewrite",
		Short: "Encrypt again what former keys have encrypted, while the server serves",
		Long: `Tells a running server to write again every value that its configuration would
now encrypt differently. A value is replaced by the same value, unless somebody
has written it meanwhile. You can interrupt the command and run it again; it
then continues with the values that are left.`,
	}, http.MethodPost))
	return cmd
}

// sealedCommand is a command that asks a server and prints its report.
func sealedCommand(cmd *cobra.Command, method string) *cobra.Command {
	dir, kubeconfig, wait := config.Standalone().DataDir, "", false
	cmd.Args = cobra.NoArgs
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "Kubeconfig of an administrator. (default $KUBECONFIG, or the one in --data-dir)")
	cmd.Flags().StringVar(&dir, "data-dir", dir, "Data directory of the server.")
	if method == http.MethodPost {
		cmd.Flags().BoolVar(&wait, "wait", false, "Wait until etcd's history is compacted and former keys can be removed.")
	}
	cmd.SetUsageFunc(usage)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := newSealedClient(kubeconfig, dir)
		if err != nil {
			return err
		}
		bar := &bar{to: cmd.ErrOrStderr(), terminal: isTerminal(cmd.ErrOrStderr())}
		report, err := c.ask(cmd.Context(), method, bar)
		if err != nil {
			return err
		}
		for wait && keptByHistory(report) {
			bar.line("etcd's history contains former values until it is compacted; checking again in %v", lookAgain)
			select {
			case <-time.After(lookAgain):
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			}
			rewritten := report.Rewritten
			if report, err = c.ask(cmd.Context(), method, bar); err != nil {
				return err
			}
			report.Rewritten += rewritten
		}
		return printSealed(cmd.OutOrStdout(), report, method == http.MethodPost)
	}
	return cmd
}

// lookAgain is the pause between two looks at the history, which servers compact every five minutes.
const lookAgain = 20 * time.Second

// keptByHistory says that a key is needed only for former values.
func keptByHistory(r *encryption.Report) bool {
	for _, u := range r.Usage {
		if !u.Writes && u.Values == 0 && u.History > 0 {
			return true
		}
	}
	return false
}

// sealedClient asks a server for reports.
type sealedClient struct {
	http *http.Client
	url  string
}

func newSealedClient(kubeconfig, dir string) (*sealedClient, error) {
	c, _, err := serverConfig(kubeconfig, dir, "")
	if err != nil {
		return nil, err
	}
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	return &sealedClient{h, strings.TrimRight(c.Host, "/") + encryption.Path}, nil
}

// maxReport bounds a line of the server's answer, in bytes.
const maxReport = 16 << 20

// ask has the server report, and shows its progress.
func (c *sealedClient) ask(ctx context.Context, method string, bar *bar) (*encryption.Report, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp)
	}
	defer bar.end()
	bound := &bounded{Reader: resp.Body}
	lines := bufio.NewReader(bound)
	for {
		bound.left = maxReport
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("the server stopped (what is rewritten stays rewritten; run the command again to continue): %w", err)
		}
		var l encryption.Line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
		switch {
		case l.Error != "":
			return nil, fmt.Errorf("%s (what is rewritten stays rewritten; run the command again to continue)", l.Error)
		case l.Report != nil:
			return l.Report, nil
		case l.Progress != nil:
			bar.show(l.Progress)
		}
	}
}

// refusal is the error of an answer that is none.
func refusal(resp *http.Response) error {
	var status metav1.Status
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // the code says enough
	if json.Unmarshal(b, &status) == nil && status.Message != "" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return fmt.Errorf("the server answered %s; is it kanzen?", resp.Status)
}

// printSealed prints a report for people.
func printSealed(w io.Writer, r *encryption.Report, rewritten bool) error {
	if rewritten {
		tell(w, "%d values rewritten.\n", r.Rewritten)
	}
	tell(w, "%d values; %d of them would now be encrypted differently.\n\n", r.Values, r.Left)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	tell(t, "PROVIDER\tKEY\tVALUES\tIN HISTORY\t\tIN THE CONFIGURATION\n")
	for _, u := range r.Usage {
		key := u.Key
		if u.Plugin != "" {
			key += " " + shorten(u.Plugin)
		}
		tell(t, "%s\t%s\t%d\t%d\t%s\t%s\n", u.Provider, key, u.Values, u.History, verdict(u), u.At)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Unreadable > 0 {
		tell(w, "\nThis server cannot read %d values. They stay as they are, and may need a key that looks unused:\n", r.Unreadable)
		for _, p := range r.Problems {
			tell(w, "  %s: %s\n", p.Key, p.Reason)
		}
		if more := r.Unreadable - int64(len(r.Problems)); more > 0 {
			tell(w, "  and %d more\n", more)
		}
	}
	tell(w, "\nThis is the view of one server, with the configuration %s. Before you remove a key, all servers must\nhave that configuration. Take new snapshots of etcd, because old ones still need the key.\n", shorten(r.Config))
	return nil
}

// verdict says what can be done with a key.
func verdict(u encryption.Usage) string {
	switch {
	case u.Writes:
		return "writes"
	case u.Removable():
		return "can be removed"
	case u.Values == 0:
		return "needed until etcd's history is compacted"
	}
	return "needed"
}

// shorten keeps the part of a hash that people compare.
func shorten(hash string) string { return hash[:min(len(hash), len("sha256:")+12)] }

// bar shows progress: on a terminal a bar in one line, elsewhere a line now and then.
type bar struct {
	to       io.Writer
	terminal bool
	step     string
	told     time.Time
	open     bool // the cursor is behind a bar
}

// lineEvery is how often a line is written where there is no terminal.
const lineEvery = 5 * time.Second

// steps are the steps of the server's work, as people know them.
var steps = map[string]string{"rewrite": "rewriting", "count": "counting", "history": "reading history"}

func (b *bar) show(p *encryption.Progress) {
	name, ok := steps[p.Step]
	if !ok {
		return
	}
	text := fmt.Sprintf("%s: %d values", name, p.Done)
	if p.Total > 0 {
		text = fmt.Sprintf("%s: %d of %d values", name, p.Done, max(p.Total, p.Done))
	}
	if p.Step == "rewrite" {
		text += fmt.Sprintf(", %d rewritten", p.Rewritten)
	}
	if !b.terminal {
		if b.told.IsZero() {
			b.told = time.Now() // short work needs no lines
		}
		if time.Since(b.told) >= lineEvery {
			b.line("%s", text)
		}
		return
	}
	if b.step != p.Step {
		b.end()
		b.step = p.Step
	}
	const width = 30
	if p.Total > 0 {
		full := int(max(0, min(float64(width)*float64(p.Done)/float64(p.Total), width)))
		text = "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "] " + text
	}
	tell(b.to, "\r\x1b[K%s", text)
	b.open = true
}

// end leaves a bar as it is.
func (b *bar) end() {
	if b.open {
		tell(b.to, "\n")
		b.open = false
	}
}

// line writes a line of its own.
func (b *bar) line(format string, args ...any) {
	b.end()
	b.told = time.Now()
	tell(b.to, format+"\n", args...)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0
}
