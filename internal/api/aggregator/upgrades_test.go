package aggregator_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestHostileUpgrades crosses what an extension server does with a request to change the protocol, or with one that does not ask
// for it, with what the client does then. When the client has gone nothing is left, and the server stops at once with streams open.
func TestHostileUpgrades(t *testing.T) {
	s := kanzentest.Start(t, kanzentest.Listen())
	const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
	ended := make(chan struct{})
	stay := func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c)
		select {
		case <-ended:
		case <-time.After(time.Millisecond):
		}
	}
	servers := map[string]func(c net.Conn){
		"switches": func(c net.Conn) { fmt.Fprint(c, switching); stay(c) },
		"early":    func(c net.Conn) { fmt.Fprint(c, switching+"early bytes"); stay(c) },
		"before":   func(c net.Conn) { fmt.Fprint(c, "bytes before the head\r\n"+switching); stay(c) },
		"continue": func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"+switching)
			stay(c)
		},
		"other":   func(c net.Conn) { fmt.Fprint(c, strings.Replace(switching, "SPDY/3.1", "h2c", 1)); stay(c) },
		"without": func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n"); stay(c) },
		"half": func(c net.Conn) {
			fmt.Fprint(c, switching)
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
			stay(c)
		},
		"closes":  func(c net.Conn) { fmt.Fprint(c, switching) },
		"nothing": func(net.Conn) {},
		"hangs":   stay,
		"long head": func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nX: "+strings.Repeat("x", 2<<20)+"\r\n\r\n")
			stay(c)
		},
		"200":     func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"+switching); stay(c) },
		"refusal": func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 100000000\r\n\r\nx") },
		"two": func(c net.Conn) {
			fmt.Fprint(c, switching+switching+"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			stay(c)
		},
		"flood": func(c net.Conn) {
			fmt.Fprint(c, switching)
			for {
				if _, err := c.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		},
	}
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/u/{does}", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		servers[r.PathValue("does")](conn)
	})
	served(t, s, mux)
	clients := map[string]func(c net.Conn){
		"leaves": func(net.Conn) {},
		"reads": func(c net.Conn) {
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, _ = io.Copy(io.Discard, io.LimitReader(c, 4<<20))
		},
		"speaks": func(c net.Conn) {
			fmt.Fprint(c, "GET /apis/ext.test/v1/things HTTP/1.1\r\nHost: x\r\nX-Remote-User: root\r\n\r\n")
		},
		"half": func(c net.Conn) {
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
			time.Sleep(10 * time.Millisecond)
		},
		"stays": func(net.Conn) { time.Sleep(50 * time.Millisecond) },
	}
	open := func(does string, upgrade bool) net.Conn {
		conn := dialAdmin(t, s)
		head := ""
		if upgrade {
			head = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
		}
		fmt.Fprintf(conn, "GET /apis/ext.test/v1/u/%s HTTP/1.1\r\nHost: x\r\n%s\r\n", does, head)
		return conn
	}
	round := func() {
		var all sync.WaitGroup
		for does := range servers {
			for is, client := range clients {
				for _, upgrade := range []bool{true, false} {
					if !upgrade && is != "reads" || does == "hangs" && is == "speaks" { // it would not be noticed that this one has gone
						continue
					}
					all.Go(func() {
						conn := open(does, upgrade)
						defer conn.Close()
						if does != "hangs" && does != "flood" {
							_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
							line, _ := bufio.NewReader(conn).ReadString('\n')
							if !upgrade && strings.Contains(line, " 101 ") {
								t.Errorf("%s, and the client %s: %q without being asked", does, is, line)
							}
						}
						client(conn)
					})
				}
			}
		}
		all.Wait()
	}
	round()
	eventually(t, "the first round has ended", func() bool { return streamGoroutines() == 0 })
	before := runtime.NumGoroutine()
	round()
	eventually(t, "no goroutine is left", func() bool { return streamGoroutines() == 0 && runtime.NumGoroutine() <= before+20 })

	var held []net.Conn
	for _, does := range []string{"switches", "half", "flood", "early"} {
		held = append(held, open(does, true))
	}
	eventually(t, "streams are open", func() bool { return streamGoroutines() > 0 })
	close(ended)
	began := time.Now()
	if err := s.Stop(); err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("stopping took %v: %v", time.Since(began), err)
	}
	eventually(t, "no stream outlives the server", func() bool { return streamGoroutines() == 0 })
	for _, c := range held {
		_ = c.Close()
	}
}

// streamGoroutines returns how many goroutines join connections.
func streamGoroutines() int {
	stacks := make([]byte, 4<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "httputil.(*ReverseProxy).handleUpgradeResponse")
}
