package otel_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"

	promclient "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	fencelockotel "github.com/fencelock/fencelock/otel"
)

// inPrometheus says by what name Prometheus shows each metric.
var inPrometheus = map[string]string{
	"fencelock.acquisitions":  "fencelock_acquisitions_total",
	"fencelock.wait.duration": "fencelock_wait_duration_seconds",
	"fencelock.held":          "fencelock_held",
	"fencelock.hold.duration": "fencelock_hold_duration_seconds",
	"fencelock.losses":        "fencelock_losses_total",
	"fencelock.renewals":      "fencelock_renewals_total",
	"fencelock.fence.checks":  "fencelock_fence_checks_total",
	"fencelock.warnings":      "fencelock_warnings_total",
}

// scrape is what Prometheus gets after a small run.
func scrape(t *testing.T) string {
	registry := promclient.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	require.NoError(t, err)
	meters := metric.NewMeterProvider(metric.WithReader(exporter))
	synctest.Test(t, func(t *testing.T) {
		o, err := fencelockotel.New(fencelockotel.MeterProvider(meters), fencelockotel.Names())
		require.NoError(t, err)
		day(t, context.Background(), o)
	})
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	resp, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

// One scrape shows every metric that the package comment promises, and all that
// the dashboard asks for.
func TestPrometheusShowsEverything(t *testing.T) {
	text := scrape(t)
	source, err := os.ReadFile("otel.go")
	require.NoError(t, err)
	promised := regexp.MustCompile(`(?m)^//\t(fencelock\.[a-z.]+) +(?:counter|histogram|up-down)`).FindAllStringSubmatch(string(source), -1)
	var names []string
	for _, m := range promised {
		names = append(names, m[1])
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(inPrometheus)), names)
	for _, name := range inPrometheus {
		require.Regexp(t, `(?m)^`+name+`(_bucket|_sum|_count)?\{.*\} \S+$`, text)
		require.Regexp(t, `(?m)^# HELP `+name+` \S`, text)
	}
	require.Regexp(t, `(?m)^fencelock_acquisitions_total\{fencelock_name="p",fencelock_passed="true",fencelock_result="acquired",.*\} 1$`, text)

	dashboard, err := os.ReadFile("grafana.json")
	require.NoError(t, err)
	var parsed struct {
		Title  string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(dashboard, &parsed))
	require.NotEmpty(t, parsed.Title)
	var shown []string
	for _, p := range parsed.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			for _, series := range regexp.MustCompile(`fencelock_\w+(?:\{|\[)`).FindAllString(target.Expr, -1) {
				series = series[:len(series)-1]
				require.Regexp(t, `(?m)^`+series+`\{`, text, p.Title)
				shown = append(shown, series)
			}
			for _, label := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(target.Expr, -1) {
				for _, l := range regexp.MustCompile(`\w+`).FindAllString(label[1], -1) {
					if l != "instance" { // which Prometheus adds
						require.Contains(t, text, l+"=", p.Title)
					}
				}
			}
		}
	}
	for _, name := range inPrometheus {
		require.True(t, slices.ContainsFunc(shown, func(s string) bool { return s == name || s == name+"_bucket" }), "the dashboard shows %s", name)
	}
}
