package kubelet

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// links rewrites what leads to the root of a proxied server so that it leads through the proxy: Location headers and the
// links in HTML.
type links struct {
	// prefix is the path of the proxy.
	prefix string
	// scheme and host are how the client reaches the proxy, as far as the request tells.
	scheme, host string
}

// newLinks takes the URL that the client asked for, and that which is asked for instead.
func newLinks(asked, instead *url.URL) *links {
	suffix := instead.Path
	if strings.HasSuffix(asked.Path, "/") && !strings.HasSuffix(suffix, "/") {
		suffix += "/"
	}
	return &links{prefix: strings.TrimSuffix(asked.Path, suffix), scheme: asked.Scheme, host: asked.Host}
}

// describe tells the proxied server by which URL it was asked.
func (l *links) describe(out *http.Request) {
	uri := path.Join(l.prefix, out.URL.EscapedPath())
	if strings.HasSuffix(out.URL.Path, "/") {
		uri += "/"
	}
	out.Header.Set("X-Forwarded-Uri", uri)
	for name, value := range map[string]string{"X-Forwarded-Host": l.host, "X-Forwarded-Proto": l.scheme} {
		if value != "" {
			out.Header.Set(name, value)
		}
	}
}

// rewrite changes an answer.
func (l *links) rewrite(resp *http.Response) error {
	if location := resp.Header.Get("Location"); location != "" {
		u, err := url.Parse(location)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("error trying to parse Location header: %w", err))
		}
		resp.Header.Set("Location", l.through(u, resp.Request))
		return nil
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(kind) != "text/html" || resp.Request.Method == http.MethodHead {
		return nil
	}
	return l.rewriteBody(resp)
}

// through returns a link found in an answer to req, changed if it leads to the proxied server by an absolute path.
func (l *links) through(u *url.URL, req *http.Request) string {
	elsewhere := u.Host != "" && u.Host != req.URL.Host && u.Host != req.Host
	if elsewhere || !strings.HasPrefix(u.Path, "/") {
		return u.String()
	}
	if u.Host != req.Host || l.scheme != "" || l.host != "" {
		u.Scheme, u.Host = l.scheme, l.host
	}
	if strings.HasPrefix(u.Path, l.prefix) {
		return u.String()
	}
	slash := strings.HasSuffix(u.Path, "/")
	u.Path = path.Join(l.prefix, u.Path)
	if slash && !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u.String()
}

// rewriteBody replaces a body of HTML. It is rewritten as it is read, and never held whole.
func (l *links) rewriteBody(resp *http.Response) error {
	b := &rewriter{close: resp.Body.Close, link: func(u *url.URL) string { return l.through(u, resp.Request) }}
	from := io.Reader(resp.Body)
	switch resp.Header.Get("Content-Encoding") {
	case "":
		b.to = &b.ready
	case "gzip":
		plain, err := gzip.NewReader(from)
		if err != nil {
			return fmt.Errorf("errorf making gzip reader: %w", err)
		}
		from, b.to = plain, gzip.NewWriter(&b.ready)
	case "deflate":
		compressed, err := flate.NewWriter(&b.ready, flate.DefaultCompression)
		if err != nil {
			return err
		}
		from, b.to = flate.NewReader(from), compressed
	default:
		return nil // nobody here can read it
	}
	b.tokens = html.NewTokenizer(from)
	b.tokens.SetMaxBuf(maxToken)
	resp.Body, resp.ContentLength = b, -1
	resp.Header.Del("Content-Length")
	return nil
}

// maxToken bounds a tag or a text between tags.
const maxToken = 1 << 20

// rewriter is a body of HTML with other links.
type rewriter struct {
	tokens *html.Tokenizer
	link   func(u *url.URL) string
	close  func() error
	to     io.Writer    // compresses into ready, or is it
	ready  bytes.Buffer // to be read next
	err    error        // to be returned when ready has been read
}

func (b *rewriter) Close() error { return b.close() }

func (b *rewriter) Read(p []byte) (int, error) {
	for b.ready.Len() == 0 && b.err == nil {
		b.err = b.next()
	}
	if b.ready.Len() > 0 {
		return b.ready.Read(p)
	}
	return 0, b.err
}

// next rewrites the next token.
func (b *rewriter) next() error {
	switch b.tokens.Next() {
	case html.ErrorToken:
		if c, ok := b.to.(io.Closer); ok && errors.Is(b.tokens.Err(), io.EOF) {
			if err := c.Close(); err != nil {
				return err
			}
		}
		return b.tokens.Err()
	case html.StartTagToken, html.SelfClosingTagToken:
		_, err := io.WriteString(b.to, b.tag())
		return err
	default:
		_, err := b.to.Write(b.tokens.Raw())
		return err
	}
}

// tag returns a tag with its links rewritten, or as it is if it has none.
func (b *rewriter) tag() string {
	raw := string(b.tokens.Raw())
	t := b.tokens.Token()
	changed := false
	for i, a := range t.Attr {
		if !slices.Contains(linksOf(t.Data), a.Key) {
			continue
		}
		if u, err := url.Parse(a.Val); err == nil {
			t.Attr[i].Val, changed = b.link(u), true
		}
	}
	if !changed {
		return raw
	}
	return t.String()
}

// linksOf returns the attributes of an element that are URLs.
func linksOf(element string) []string {
	switch element {
	case "a", "base", "link":
		return []string{"href"}
	case "applet":
		return []string{"codebase"}
	case "area":
		return []string{"href"}
	case "audio", "embed", "script":
		return []string{"src"}
	case "blockquote", "del", "ins", "q":
		return []string{"cite"}
	case "body":
		return []string{"background"}
	case "button":
		return []string{"formaction"}
	case "command":
		return []string{"icon"}
	case "form":
		return []string{"action"}
	case "frame", "iframe":
		return []string{"longdesc", "src"}
	case "head":
		return []string{"profile"}
	case "html":
		return []string{"manifest"}
	case "img":
		return []string{"longdesc", "src", "usemap"}
	case "input":
		return []string{"src", "usemap", "formaction"}
	case "object":
		return []string{"classid", "codebase", "data", "usemap"}
	case "source":
		return []string{"src"}
	case "video":
		return []string{"poster", "src"}
	}
	return nil
}
