// Package tracing sends spans of sampled requests to an OpenTelemetry collector: one span for each request; package
// span creates the spans within it. Without a configuration, requests do not pass through it.
package tracing

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/base/span"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Tracing sends spans to a collector.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	remote   propagation.TextMapPropagator
}

// Load reads a TracingConfiguration.
func Load(path string) (*apiserverv1.TracingConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c apiserverv1.TracingConfiguration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	gv := schema.FromAPIVersionAndKind(c.APIVersion, c.Kind)
	if gv.Group != "apiserver.config.k8s.io" || !slices.Contains([]string{"v1", "v1beta1"}, gv.Version) || gv.Kind != "TracingConfiguration" {
		return nil, fmt.Errorf("%s: is a %s, not a TracingConfiguration of apiserver.config.k8s.io/v1", path, gv)
	}
	if errs := validate(&c); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", path, errs.ToAggregate())
	}
	return &c, nil
}

func validate(c *apiserverv1.TracingConfiguration) field.ErrorList {
	var errs field.ErrorList
	if r := c.SamplingRatePerMillion; r != nil && (*r < 0 || *r > 1e6) {
		errs = append(errs, field.Invalid(field.NewPath("samplingRatePerMillion"), *r, "sampling rate must be from 0 to 1000000"))
	}
	if e := c.Endpoint; e != nil {
		path := field.NewPath("endpoint")
		if *e == "" {
			errs = append(errs, field.Invalid(path, *e, "must not be empty"))
		} else if _, _, err := net.SplitHostPort(*e); err != nil {
			if u, err := url.Parse(*e); err != nil || u.Scheme == "" {
				errs = append(errs, field.Invalid(path, *e, "must be an address with a port, or a gRPC name"))
			}
		}
	}
	return errs
}

// New connects to the collector in a configuration. An unreachable collector is not an error; spans are lost then.
// dial, if not nil, opens connections.
func New(ctx context.Context, c *apiserverv1.TracingConfiguration, instance string, dial utilnet.DialFunc) (*Tracing, error) {
	options := []otlptracegrpc.Option{otlptracegrpc.WithInsecure()}
	if c.Endpoint != nil {
		options = append(options, otlptracegrpc.WithEndpoint(*c.Endpoint))
	}
	if dial != nil {
		options = append(options, otlptracegrpc.WithDialOption(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return dial(ctx, "tcp", addr)
		})))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the collector of traces: %w", err)
	}
	return newTracing(sdktrace.WithBatcher(exporter), c, instance), nil
}

func newTracing(export sdktrace.TracerProviderOption, c *apiserverv1.TracingConfiguration, instance string) *Tracing {
	sampler := sdktrace.NeverSample()
	if r := c.SamplingRatePerMillion; r != nil && *r > 0 {
		sampler = sdktrace.TraceIDRatioBased(float64(*r) / 1e6)
	}
	p := sdktrace.NewTracerProvider(export, sdktrace.WithSampler(sdktrace.ParentBased(sampler)), sdktrace.WithResource(
		resource.NewSchemaless(attribute.String("service.name", "apiserver"), attribute.String("service.instance.id", instance))))
	return &Tracing{provider: p, tracer: p.Tracer("github.com/kanzen-io/kanzen"), remote: span.Propagator()}
}

// Close sends the remaining spans.
func (t *Tracing) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Filter creates a span for each sampled request. A privileged client may decide that its request is sampled, and the
// span continues the client's trace; for other clients it starts a new trace with a link to theirs.
func (t *Tracing) Filter(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		i := request.InfoFrom(ctx)
		options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
		if at := request.ReceivedFrom(ctx); !at.IsZero() {
			options = append(options, trace.WithTimestamp(at))
		}
		theirs := t.remote.Extract(ctx, propagation.HeaderCarrier(r.Header))
		if trusted(request.UserFrom(ctx)) {
			ctx = theirs
		} else if s := trace.SpanContextFromContext(theirs); s.IsValid() {
			options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: s}))
		}
		ctx, span := t.tracer.Start(ctx, spanName(i, r.Method), options...)
		defer span.End()
		if !span.IsRecording() {
			next(w, r.WithContext(ctx))
			return
		}
		span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.target", r.URL.RequestURI()),
			attribute.String("url.scheme", "https"), attribute.String("url.path", r.URL.Path), attribute.String("network.protocol.version", strings.TrimPrefix(r.Proto, "HTTP/")),
			attribute.String("user_agent.original", r.UserAgent()), attribute.String("audit-id", request.AuditIDFrom(ctx)))
		if ip := utilnet.GetClientIP(r); ip != nil {
			span.SetAttributes(attribute.String("client.address", ip.String()))
		}
		next(w, r.WithContext(ctx))
		code := chain.StatusOf(w)
		span.SetAttributes(attribute.Int("http.response.status_code", code), attribute.Int64("http.response.body.size", chain.SizeOf(w)))
		request.LatencyFrom(ctx).Each(func(l request.Layer, d time.Duration) {
			span.SetAttributes(attribute.String("latency."+l.String(), d.String()))
		})
		if code >= 500 {
			span.SetStatus(codes.Error, strconv.Itoa(code))
		}
	}
}

func trusted(u user.Info) bool {
	return u != nil && slices.ContainsFunc(u.GetGroups(), func(g string) bool { return g == user.SystemPrivilegedGroup || g == user.MonitoringGroup })
}

// spanName returns the route of a request. It contains no object names, which would make too many span names.
func spanName(i *request.Info, method string) string {
	if i == nil || !i.IsResource {
		return method
	}
	name := method + " /" + i.Prefix
	if i.Group != "" {
		name += "/" + i.Group
	}
	name += "/" + i.Version
	if i.Namespace != "" {
		name += "/namespaces/{:namespace}"
	}
	name += "/" + i.Resource
	if i.Name != "" {
		name += "/{:name}"
	}
	if i.Subresource != "" {
		name += "/" + i.Subresource
	}
	return name
}
