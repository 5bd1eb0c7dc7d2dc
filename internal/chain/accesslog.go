package chain

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

// slowFrom is the duration above which a request is logged even if others are not.
const slowFrom = 500 * time.Millisecond

// AccessLog logs each request while verbose returns true. Otherwise it logs only slow requests, at level Info.
func AccessLog(log *slog.Logger, clk clock.PassiveClock, verbose func() bool) Filter {
	if verbose == nil {
		return nil
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			all := verbose()
			if !all && !log.Enabled(r.Context(), slog.LevelInfo) {
				next(w, r)
				return
			}
			began, path := clk.Now(), r.RequestURI
			agent, from := r.UserAgent(), r.RemoteAddr
			resp, w := responseOf(w)
			defer func() {
				took := clk.Since(began)
				switch {
				case all:
					logAccess(log, "HTTP", r, resp, path, agent, from, took)
				case took > slowFrom && !LongRunning(request.InfoFrom(r.Context())):
					logAccess(log, "slow request", r, resp, path, agent, from, took)
				}
			}()
			next(w, r)
		}
	}
}

func logAccess(log *slog.Logger, message string, r *http.Request, resp *response, uri, agent, from string, took time.Duration) {
	ctx := r.Context()
	attrs := []slog.Attr{
		slog.String("verb", logVerb(request.InfoFrom(ctx).Verb)), slog.String("URI", uri), slog.Duration("latency", took),
		slog.String("userAgent", agent), slog.String("audit-ID", request.AuditIDFrom(ctx)), slog.String("srcIP", from),
	}
	if level := resp.Header().Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID); level != "" {
		attrs = append(attrs, slog.String("apf_pl_uid", level),
			slog.String("apf_fs_uid", resp.Header().Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)))
	}
	request.LatencyFrom(ctx).Each(func(l request.Layer, d time.Duration) {
		attrs = append(attrs, slog.Duration(l.String(), d))
	})
	code := resp.code
	if code == 0 {
		code = http.StatusOK
	}
	attrs = append(attrs, slog.Int("resp", code))
	log.LogAttrs(ctx, slog.LevelInfo, message, attrs...)
}

// logVerb spells a verb as kube-apiserver's log and metrics do.
func logVerb(verb string) string {
	switch verb {
	case "create":
		return http.MethodPost
	case "update":
		return http.MethodPut
	}
	return strings.ToUpper(verb)
}
