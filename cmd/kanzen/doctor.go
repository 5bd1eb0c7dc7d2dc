package main

import (
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
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func doctorCommand() *cobra.Command {
	var a asking
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine a server for common problems, and say what to do",
		Long: `Looks for common problems of an API server and says what to do: certificates,
etcd, webhooks, CRDs, extension API servers, deprecated APIs, quotas. It only
reads, as the user of the kubeconfig, and says what that user may not read. The
exit code is 1 if something needs attention.`,
		Args: cobra.NoArgs,
	}
	a.add(cmd.Flags(), false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.open()
		if err != nil {
			return err
		}
		d := &doctor{asker: s, now: time.Now()}
		if _, err := s.text(cmd.Context(), "/version"); err != nil && !errors.As(err, new(*refusedError)) {
			return err // nobody answers
		}
		d.examine(cmd.Context())
		if a.output == "json" {
			err = printJSON(cmd.OutOrStdout(), d.Findings)
		} else {
			d.print(cmd.OutOrStdout())
		}
		if n := d.count(bad) + d.count(worrying); err == nil && n > 0 {
			return fmt.Errorf("findings that need attention: %d", n)
		}
		return err
	}
	return cmd
}

// Severities of findings.
const (
	good     = "OK"
	unknown  = "Unknown"
	worrying = "Warning"
	bad      = "Error"
)

// finding is what the doctor says about something.
type finding struct {
	Severity string `json:"severity"`
	About    string `json:"about"`
	Text     string `json:"text"`
	Advice   string `json:"advice,omitempty"`
}

type doctor struct {
	*asker
	now      time.Time
	Findings []finding
}

func (d *doctor) say(severity, about, advice, format string, args ...any) {
	d.Findings = append(d.Findings, finding{severity, about, fmt.Sprintf(format, args...), advice})
}

func (d *doctor) count(severity string) (n int) {
	for _, f := range d.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// examination is one of the doctor's questions. It returns nil if it has said something, or found nothing wrong.
type examination struct {
	about string
	look  func(ctx context.Context) error
}

func (d *doctor) examine(ctx context.Context) {
	for _, e := range []examination{
		{"health", d.health}, {"certificates", d.certificates}, {"clock", d.clock}, {"etcd", d.etcd}, {"webhooks", d.webhooks}, {"admission order", d.admissionOrder},
		{"CRDs", d.definitions}, {"APIServices", d.apiServices}, {"namespaces", d.namespaces}, {"deprecated APIs", d.deprecated}, {"quotas", d.quotas},
	} {
		before := len(d.Findings)
		err := e.look(ctx)
		switch {
		case err != nil:
			d.say(unknown, e.about, "", "could not be examined: %v", err)
		case len(d.Findings) == before:
			d.say(good, e.about, "", "no problems found")
		}
	}
}

func (d *doctor) print(w io.Writer) {
	for _, f := range d.Findings {
		tell(w, "%-8s %s: %s\n", f.Severity, f.About, f.Text)
		if f.Advice != "" {
			tell(w, "         → %s\n", f.Advice)
		}
	}
}

func (d *doctor) health(ctx context.Context) error {
	text, err := d.text(ctx, "/readyz?verbose")
	var refused *refusedError
	if errors.As(err, &refused) && refused.code == http.StatusInternalServerError {
		d.say(bad, "health", "look at /readyz?verbose and the server's log", "the server is not ready")
		return nil
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "[-]") {
			d.say(bad, "health", "", "%s", strings.TrimSpace(line))
		}
	}
	return err
}

// expiring is how long before its end a certificate is complained of.
const expiring = 14 * 24 * time.Hour

func (d *doctor) certificates(ctx context.Context) error {
	u, err := url.Parse(d.url)
	if err != nil {
		return err
	}
	if u.Scheme == "https" {
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
		for n, cert := range c.(*tls.Conn).ConnectionState().PeerCertificates {
			what := "the server's certificate"
			if n > 0 {
				what = "an authority of the server's certificate"
			}
			d.expiry("certificates", what, cert)
		}
	}
	d.expiries("certificates", "the client certificate of the kubeconfig", d.config.CertData)
	d.expiries("certificates", "the authority in the kubeconfig", d.config.CAData)
	return nil
}

// expiries looks at the dates of PEM certificates.
func (d *doctor) expiries(about, what string, data []byte) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			d.expiry(about, what, cert)
		}
	}
}

func (d *doctor) expiry(about, what string, cert *x509.Certificate) {
	left := cert.NotAfter.Sub(d.now)
	switch {
	case left < 0:
		d.say(bad, about, "renew it", "%s has expired on %s", what, cert.NotAfter.Format(time.DateOnly))
	case d.now.Before(cert.NotBefore):
		d.say(bad, about, "compare the clocks", "%s is valid only from %s on", what, cert.NotBefore.Format(time.DateTime))
	case left < expiring && cert.NotAfter.Sub(cert.NotBefore) > 2*expiring:
		d.say(worrying, about, "renew it", "%s expires on %s", what, cert.NotAfter.Format(time.DateOnly))
	}
}

// maxSkew is how much the clocks may differ.
const maxSkew = 2 * time.Second

func (d *doctor) clock(ctx context.Context) error {
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
		return errors.New("the server does not report its time")
	}
	// The header has whole seconds.
	if at.Add(time.Second).Before(before.Add(-maxSkew)) || at.After(after.Add(maxSkew)) {
		d.say(worrying, "clock", "synchronize the clocks: tokens, certificates and leases depend on them", "this machine's and the server's clock differ by %v", at.Sub(after).Round(time.Second))
	}
	return nil
}
