package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// severities are those of findings, the worst first.
var severities = []string{v1alpha1.SeverityError, v1alpha1.SeverityWarning, v1alpha1.SeverityInfo}

func diagnoseCommand() *cobra.Command {
	var a asking
	failOn, from := "warning", ""
	cmd := &cobra.Command{
		Use:     "diagnose",
		Aliases: []string{"doctor"},
		Short:   "Say what is wrong with a server now: cause, who suffers, what to do",
		Long: `Shows what is wrong now: webhooks that fail or are slow, objects whose deletion is
stuck or that nothing works on, writers that fight, clients that cannot
authenticate, disks that fill, certificates that expire. Each finding tells since
when, who suffers, the cause, what the server has seen, and commands to paste.

The server looks for it all the time; kubectl get findings shows the same. What
only a client can see is added: the dates of the kubeconfig's certificates, the
clocks. Nothing is printed if nothing is wrong.

The exit code is 2 if there are findings of the severity that --fail-on names, or
of a worse one, and 1 if the server cannot be asked.`,
		Args: cobra.NoArgs,
	}
	a.add(cmd.Flags(), false)
	cmd.Flags().StringVar(&failOn, "fail-on", failOn, "Severity from which on findings make the exit code 2: info, warning, error or never.")
	cmd.Flags().StringVar(&from, "from", "", "File of 'kanzen record' to read instead of asking a server.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		worst := slices.Index([]string{"error", "warning", "info", "never"}, failOn)
		if worst < 0 {
			return fmt.Errorf("--fail-on: %q is not info, warning, error or never", failOn)
		}
		d := &diagnosis{now: time.Now(), found: []v1alpha1.Finding{}}
		var asked, err error
		if from != "" {
			asked = d.read(from)
		} else if d.asker, err = a.open(); err == nil {
			asked = d.ask(cmd.Context())
		}
		if err != nil {
			return err
		}
		switch {
		case a.output == "json" && (asked == nil || len(d.found) > 0):
			err = printJSON(cmd.OutOrStdout(), d.found)
		case a.output != "json":
			d.print(cmd.OutOrStdout())
		}
		if err := errors.Join(asked, err); err != nil {
			return err
		}
		if n := d.count(worst); failOn != "never" && n > 0 {
			return &endingError{2, fmt.Errorf("findings that need attention: %d", n)}
		}
		return nil
	}
	return cmd
}

// endingError is an error with the exit code of the program.
type endingError struct {
	code int
	error
}

func (e *endingError) Unwrap() error { return e.error }

// diagnosis is what the server has found, and what only a client can see.
type diagnosis struct {
	*asker
	now   time.Time
	found []v1alpha1.Finding
}

// count returns how many findings are of a severity or of a worse one.
func (d *diagnosis) count(worst int) (n int) {
	for _, f := range d.found {
		if rankOf(f.Severity) <= worst {
			n++
		}
	}
	return n
}

func rankOf(severity string) int {
	if n := slices.Index(severities, severity); n >= 0 {
		return n
	}
	return len(severities)
}

// ask collects the findings. If the server does not answer, those of the client may say why.
func (d *diagnosis) ask(ctx context.Context) error {
	d.kubeconfig()
	var list v1alpha1.FindingList
	if err := d.get(ctx, recorderPath+"findings", &list); err != nil {
		var refused *refusedError
		if errors.As(err, &refused) && refused.code == http.StatusNotFound {
			return errors.New(d.noRecorder() + ", so nothing looks for trouble there")
		}
		return err
	}
	d.found = append(d.found, list.Items...)
	if err := errors.Join(d.serving(ctx), d.clock(ctx)); err != nil {
		return err
	}
	d.sort()
	return nil
}

// read takes what a server had found when a file was written.
func (d *diagnosis) read(path string) error {
	r, err := readIncident(path)
	if err != nil {
		return err
	}
	d.found = append(d.found, r.findings...)
	d.sort()
	return nil
}

func (d *diagnosis) sort() {
	slices.SortStableFunc(d.found, func(a, b v1alpha1.Finding) int { return cmp.Compare(rankOf(a.Severity), rankOf(b.Severity)) })
}

// say adds a finding of the client.
func (d *diagnosis) say(check, severity, cause, command, format string, args ...any) {
	f := v1alpha1.Finding{Check: check, Severity: severity, Since: metav1.NewTime(d.now), Summary: fmt.Sprintf(format, args...), Cause: cause}
	if f.Name = strings.ToLower(check); command != "" {
		f.Commands = []string{command}
	}
	d.found = append(d.found, f)
}

func (d *diagnosis) print(w io.Writer) {
	for n := range d.found {
		if n > 0 {
			tell(w, "\n")
		}
		printFinding(w, &d.found[n])
	}
}

// printFinding prints a finding for people.
func printFinding(w io.Writer, f *v1alpha1.Finding) {
	tell(w, "%-7s %s (%s, since %s)\n", strings.ToUpper(f.Severity), f.Summary, f.Check, f.Since.Local().Format(time.DateTime))
	if f.Impact != "" {
		tell(w, "  impact    %s\n", f.Impact)
	}
	if f.Cause != "" {
		tell(w, "  cause     %s\n", f.Cause)
	}
	for _, text := range f.Evidence {
		tell(w, "  seen      %s\n", text)
	}
	if len(f.Requests) > 0 {
		tell(w, "  requests  %s\n", strings.Join(f.Requests, " "))
	}
	for _, text := range f.Commands {
		tell(w, "  try       %s\n", text)
	}
}

// kubeconfig looks at the dates of the certificates in the kubeconfig.
func (d *diagnosis) kubeconfig() {
	d.expiries("KubeconfigExpired", "the client certificate of the kubeconfig", "kanzen kubeconfig --help", d.config.CertData)
	d.expiries("KubeconfigExpired", "the authority in the kubeconfig", "kanzen kubeconfig --help", d.config.CAData)
}

// serving looks at the certificate that the server shows to this client: a proxy may have another one than the server.
func (d *diagnosis) serving(ctx context.Context) error {
	u, err := url.Parse(d.url)
	if err != nil || u.Scheme != "https" {
		return err
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Host, "443")
	}
	// Who the server is was checked by the requests before; here only the dates are read.
	c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, cert := range c.(*tls.Conn).ConnectionState().PeerCertificates {
		d.expiry("ServingCertificate", "the certificate "+cert.Subject.String()+" that the server shows", "", cert)
	}
	return nil
}

// expiries looks at the dates of PEM certificates.
func (d *diagnosis) expiries(check, what, command string, data []byte) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			d.expiry(check, what, command, cert)
		}
	}
}

// expiring is how long before its end a certificate is complained of.
const expiring = 14 * 24 * time.Hour

func (d *diagnosis) expiry(check, what, command string, cert *x509.Certificate) {
	left := cert.NotAfter.Sub(d.now)
	switch {
	case left < 0:
		d.say(check, v1alpha1.SeverityError, "it has to be renewed", command, "%s has expired on %s", what, cert.NotAfter.Format(time.DateTime))
	case d.now.Before(cert.NotBefore):
		d.say(check, v1alpha1.SeverityError, "a clock is wrong, this machine's or that of who made it", "date", "%s is valid only from %s on", what, cert.NotBefore.Format(time.DateTime))
	case left < expiring && cert.NotAfter.Sub(cert.NotBefore) > 2*expiring:
		d.say(check, v1alpha1.SeverityWarning, "it has to be renewed", command, "%s expires on %s", what, cert.NotAfter.Format(time.DateTime))
	}
}

// maxSkew is how much the clocks may differ.
const maxSkew = 2 * time.Second

// clock compares the clocks: tokens, certificates and leases depend on them.
func (d *diagnosis) clock(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/version", nil)
	if err != nil {
		return err
	}
	before := time.Now()
	resp, err := d.http.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	after := time.Now()
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return nil // a proxy may leave it out
	}
	// The header has whole seconds.
	if at.Add(time.Second).Before(before.Add(-maxSkew)) || at.After(after.Add(maxSkew)) {
		d.say("ClockSkew", v1alpha1.SeverityWarning, "tokens, certificates and leases are judged by the wrong time", "timedatectl", "this machine's and the server's clock differ by %v", at.Sub(after).Round(time.Second))
	}
	return nil
}
