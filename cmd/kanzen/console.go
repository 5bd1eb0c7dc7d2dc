package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func consoleCommand() *cobra.Command {
	var a asking
	var from string
	open := true
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Open a page in the browser that shows what the server does",
		Long: `Prints a link to the page at /console, and opens it in a browser. The link
works once, within two minutes. Whoever opens it sees the page as the user of
the kubeconfig, for up to four hours.

The browser warns about the server's certificate, because the server's own
authority signed it. Compare the fingerprint.

With --from it shows what 'kanzen record' has saved, without a server. The page
is served on a port of this machine, to the browser that opened the link, until
you press Ctrl-C.

  kanzen console
  kanzen console --from incident`,
		Args: cobra.NoArgs,
	}
	a.add(cmd.Flags(), false)
	cmd.Flags().BoolVar(&open, "open", open, "Open the link in a browser.")
	cmd.Flags().StringVar(&from, "from", "", "A file of 'kanzen record' to show, instead of a server.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if from != "" {
			return a.showFile(cmd, from, open)
		}
		s, err := a.open()
		if err != nil {
			return err
		}
		link, valid, err := s.consoleLink(cmd.Context())
		if err != nil {
			return err
		}
		if name := a.contextName(); name != "" { // what the viewer calls the cluster
			link += "&context=" + url.QueryEscape(name)
		}
		print := s.fingerprint(cmd.Context())
		if a.output == "json" {
			return printJSON(cmd.OutOrStdout(), map[string]any{"link": link, "seconds": int(valid.Seconds()), "fingerprint": print})
		}
		tell(cmd.OutOrStdout(), "%s\n  works once, within %s\n", link, valid)
		if print != "" {
			tell(cmd.OutOrStdout(), "  SHA-256 of the server's certificate: %s\n", print)
		}
		if open {
			browseOrTell(cmd, link)
		}
		return nil
	}
	return cmd
}

// showFile shows a file of 'kanzen record' until the command is interrupted.
func (a *asking) showFile(cmd *cobra.Command, from string, open bool) error {
	s, err := newShelf(from)
	if err != nil {
		return err
	}
	return s.serve(cmd.Context(), func(link string) {
		if a.output == "json" {
			_ = printJSON(cmd.OutOrStdout(), map[string]any{"link": link}) // as all that is printed
		} else {
			tell(cmd.OutOrStdout(), "%s\n  works once; press Ctrl-C when you have seen enough\n", link)
		}
		if open {
			browseOrTell(cmd, link)
		}
	})
}

func browseOrTell(cmd *cobra.Command, link string) {
	if err := browse(cmd.Context(), link); err != nil {
		tell(cmd.ErrOrStderr(), "cannot open a browser (%v): open the link yourself\n", err)
	}
}

// consoleLink returns a link that signs a browser in, once, and for how long it works. The code is behind a #, so that a
// browser sends it to nobody.
func (a *asker) consoleLink(ctx context.Context) (string, time.Duration, error) {
	var answer struct {
		Code    string
		Seconds int
	}
	err := a.ask(ctx, http.MethodPost, "/console/codes", "", nil, &answer)
	var refused *refusedError
	if errors.As(err, &refused) && a.below() != "" {
		return "", 0, errors.New(a.noRecorder() + ", so it has no console")
	}
	if errors.As(err, &refused) && (refused.code == http.StatusNotFound || refused.code == http.StatusForbidden) {
		return "", 0, fmt.Errorf("the server has no console (--console and --flight-recorder-memory): %w", err)
	}
	if err != nil {
		return "", 0, err
	}
	return strings.TrimSuffix(a.url, "/") + "/console/#code=" + url.QueryEscape(answer.Code), time.Duration(answer.Seconds) * time.Second, nil
}

// fingerprint returns that of the server's certificate, as browsers show it; "" if there is none. The request before has
// checked whose certificate it is.
func (a *asker) fingerprint(ctx context.Context) string {
	u, err := url.Parse(a.url)
	if err != nil || u.Scheme != "https" {
		return ""
	}
	host := u.Host
	if u.Port() == "" {
		host += ":443"
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", host)
	if err != nil {
		return ""
	}
	defer c.Close()
	certificates := c.(*tls.Conn).ConnectionState().PeerCertificates
	if len(certificates) == 0 {
		return ""
	}
	return fmt.Sprintf("%X", sha256.Sum256(certificates[0].Raw))
}

// browse opens a link in the user's browser. The link is an argument, so other users of the machine can see it while the
// program starts; it works once.
func browse(ctx context.Context, link string) error {
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, path, args...).Run()
}
