package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

const (
	floodTime    = 10 * time.Second
	floodingUser = "mallory"
	floodTypes   = 200 // CRDs of 32 kB
	floodObjects = 250 // config maps of 900 kB
)

// flood is what one user sends, with several clients each of which repeats it.
type flood struct {
	name    string
	clients int
	prepare func(ctx context.Context, f fixture) error // as the administrator; or nil
	// send sends a request, or a series of them, as the user. Refusals are no errors of the flood.
	send func(ctx context.Context, client *api, i int) error
}

// floods lists what SECURITY.md says about one user's cost for others.
func floods() []flood {
	var many []string
	for i := range 170_000 {
		many = append(many, fmt.Sprintf(`"a%d":"b"`, i))
	}
	body := func(head string, entries int) []byte {
		return []byte(head + strings.Join(many[:entries], ",") + "}}")
	}
	review := body(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}},"metadata":{"annotations":{`, 170_000)
	review = append(review, '}')
	large := body(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generateName":"a"},"data":{`, 100_000)
	lists := func(accept string) func(context.Context, *api, int) error {
		return func(ctx context.Context, client *api, _ int) error {
			_, err := client.accept(ctx, configMapsPath("large"), accept)
			return err
		}
	}
	return []flood{
		{"nothing", 0, nil, nil},
		{"reviews of 2.4 MB with 170,000 annotations", 8, nil, posts("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)},
		{"config maps with 100,000 keys", 8, nil, posts(configMapsPath("default"), large)},
		{"patches that make a config map grow by 8,000 keys each", 8, growing, grow},
		{"strategic merge patches of a list of 9,000 by clients that leave after 0.3 s", 50, manySecrets, patchSecrets},
		{"lists of 225 MB in YAML", 9, fillLarge, lists("application/yaml")},
		{"lists of 225 MB in JSON", 9, fillLarge, lists("application/json")},
		{"lists of 225 MB that are not read", 40, fillLarge, func(ctx context.Context, client *api, _ int) error {
			response, err := client.open(ctx, http.MethodGet, configMapsPath("large"), nil)
			if err != nil {
				return err
			}
			<-ctx.Done()
			return response.Body.Close()
		}},
		{"connections with 900 kB of unfinished headers", 300, nil, unfinished},
		{"a namespace that fills with config maps of 1 MB", 8, nil, posts(configMapsPath("default"), configMap("", "full-", nil, 1_000_000))},
		{"bodies of 1 MB of which half is sent", 300, nil, halfSent},
		{"lists whose conversion webhook is a command of the server itself", 8, convertHere, func(ctx context.Context, client *api, _ int) error {
			return client.discard(ctx, http.MethodGet, "/apis/"+group+"/v2/namespaces/default/converteds", nil)
		}},
		{"watches", 50, nil, watches("")},
		{"watches with headers of 60 kB", 50, nil, watches(strings.Repeat("a", 60_000))},
		{fmt.Sprintf("reads of one object that does not exist, in %d types of CRDs of 32 kB", floodTypes), 8, defineMany, func(ctx context.Context, client *api, i int) error {
			return client.discard(ctx, http.MethodGet, fmt.Sprintf("/apis/%s/v1/namespaces/default/%s/absent", floodGroup(i), floodType(i)), nil)
		}},
		{"OpenAPI documents of as many groups", 8, defineMany, func(ctx context.Context, client *api, i int) error {
			return client.discard(ctx, http.MethodGet, fmt.Sprintf("/openapi/v3/apis/%s/v1", floodGroup(i)), nil)
		}},
	}
}

func posts(path string, body []byte) func(context.Context, *api, int) error {
	return func(ctx context.Context, client *api, _ int) error {
		return client.discard(ctx, http.MethodPost, path, body)
	}
}

func growing(ctx context.Context, f fixture) error {
	return f.discard(ctx, http.MethodPost, configMapsPath("default"), configMap("growing", "", nil, 1))
}

func grow(ctx context.Context, client *api, i int) error {
	var entries []string
	for k := range 8_000 {
		entries = append(entries, fmt.Sprintf(`"k%d-%d":"v"`, i%10, k))
	}
	body := `{"data":{` + strings.Join(entries, ",") + `}}`
	return client.patch(ctx, configMapsPath("default")+"/growing", "application/merge-patch+json", []byte(body))
}

const accountPath = "/api/v1/namespaces/default/serviceaccounts"

// listed are names of Secrets, which are merged by name.
func listed(from, to int) (names []object) {
	for i := from; i < to; i++ {
		names = append(names, object{"name": fmt.Sprint("secret-", i)})
	}
	return names
}

func manySecrets(ctx context.Context, f fixture) error {
	return f.discard(ctx, http.MethodPost, accountPath, encode(object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("listing", nil), "secrets": listed(0, 9000)}))
}

func patchSecrets(ctx context.Context, client *api, i int) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	return client.patch(ctx, accountPath+"/listing", "application/strategic-merge-patch+json", encode(object{"secrets": listed(i*900, (i+1)*900)}))
}

func fillLarge(ctx context.Context, f fixture) error {
	if err := f.namespace(ctx, "large"); err != nil {
		return err
	}
	return f.fill(ctx, configMaps, "large", floodObjects, 900_000, nil)
}

// watches has each client open a hundred watches and keep them.
func watches(header string) func(context.Context, *api, int) error {
	return func(ctx context.Context, client *api, _ int) error {
		for range 100 {
			watch, err := client.watch(ctx, configMapsPath("default"), "resourceVersion=0&labelSelector="+url.QueryEscape(strings.TrimSuffix("a!=b,"+strings.ReplaceAll(header, "aaaaaaaa", "a!=bbb,"), ",")))
			if err != nil {
				return err
			}
			defer watch.close()
		}
		<-ctx.Done()
		return nil
	}
}

func floodGroup(i int) string { return fmt.Sprintf("flood%03d.example.com", i%floodTypes) }
func floodType(i int) string  { return fmt.Sprintf("floods%03d", i%floodTypes) }

// defineMany makes CRDs of 32 kB, each in a group of its own.
func defineMany(ctx context.Context, f fixture) error {
	padding := text(30_000)
	return f.inParallel(ctx, concurrent, floodTypes, func(ctx context.Context, client *api, i int) error {
		definition := strings.ReplaceAll(string(crd(floodType(i))), group, floodGroup(i))
		definition = strings.Replace(definition, `"type":"object"`, fmt.Sprintf(`"type":"object","description":%q`, padding), 1)
		return client.discard(ctx, http.MethodPost, crdsPath, []byte(definition))
	})
}

// convertHere makes a type whose objects a webhook converts, at the path of a command.
func convertHere(ctx context.Context, f fixture) error {
	definition := string(crd("converteds"))
	from, version, _ := strings.Cut(definition, `"versions":[`)
	version, to, _ := strings.Cut(version, "]")
	second := strings.NewReplacer(`"name":"v1"`, `"name":"v2"`, `"storage":true`, `"storage":false`).Replace(version)
	webhook := `"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"service":{"name":"kubernetes","namespace":"default","path":"/kube-hyper-mini/encryption/rotate"}}}},`
	definition = from + `"versions":[` + version + "," + second + "]" + to
	definition = strings.Replace(definition, `"spec":{"group"`, `"spec":{`+webhook+`"group"`, 1)
	if err := f.discard(ctx, http.MethodPost, crdsPath, []byte(definition)); err != nil {
		return err
	}
	return f.await(ctx, "an object that needs a conversion", func(ctx context.Context) error {
		return f.discard(ctx, http.MethodPost, widgetsOf("converteds").path("default"), widgetsOf("converteds").make("one", nil, 10))
	})
}

// unfinished sends headers of HTTP/1.1 without an end.
func unfinished(ctx context.Context, client *api, _ int) error {
	lines := strings.Repeat("X-A: "+strings.Repeat("a", 4000)+"\r\n", 225)
	return sendRaw(ctx, client, "GET / HTTP/1.1\r\nHost: a\r\n"+lines)
}

// halfSent sends half of a body.
func halfSent(ctx context.Context, client *api, _ int) error {
	return sendRaw(ctx, client, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nImpersonate-User: %s\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n%s",
		configMapsPath("default"), client.user, strings.Repeat(" ", 500_000)))
}

// sendRaw sends the text over a connection of its own and keeps that open.
func sendRaw(ctx context.Context, client *api, text string) error {
	config := client.http.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	dialer := tls.Dialer{Config: config}
	connection, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(client.server, "https://"))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	if _, err := connection.Write([]byte(text)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func floodRows() (rows []row) {
	for _, flood := range floods() {
		rows = append(rows,
			row{name: flood.name + ": anonymous memory before", unit: inBytes},
			row{name: flood.name + ": the highest", unit: inBytes},
			row{name: flood.name + ": another user's lists of namespaces, median", unit: inSeconds},
			row{name: flood.name + ": the same, slowest", unit: inSeconds})
	}
	return rows
}

// measureFloods runs each flood on a server of its own.
func measureFloods(ctx context.Context, b *bench, s side) (values []float64, err error) {
	for _, flood := range floods() {
		err := b.withFixture(ctx, s, func(f fixture) error {
			for user, role := range map[string]string{ordinaryUser: "view", floodingUser: "edit"} {
				if err := f.admit(ctx, user, role); err != nil {
					return err
				}
			}
			measured, err := f.flooded(ctx, flood)
			if err == nil {
				b.say("%s: %.0f -> %.0f MB, %.3f s, %.3f s", flood.name, measured[0]/1e6, measured[1]/1e6, measured[2], measured[3])
			}
			values = append(values, measured...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("flood with %s: %w", flood.name, err)
		}
	}
	return values, nil
}

// flooded returns the values of the rows of one flood.
func (f fixture) flooded(ctx context.Context, flood flood) ([]float64, error) {
	if flood.prepare != nil {
		if err := flood.prepare(ctx, f); err != nil {
			return nil, err
		}
	}
	if err := f.rest(ctx); err != nil {
		return nil, err
	}
	before, err := f.usage()
	if err == nil {
		err = f.resetPeaks()
	}
	if err != nil {
		return nil, err
	}
	other, err := startProbe(ctx, f.kubeconfig, ordinaryUser)
	if err != nil {
		return nil, err
	}
	err = repeat(ctx, f.config, flood)
	middle, slowest, probeErr := other.stop()
	peak, _, peakErr := f.peak()
	return []float64{before.anonymous, peak, middle, slowest}, errors.Join(err, probeErr, peakErr)
}

// repeat has the clients of the flood send for floodTime. Errors, mostly refusals, are what the
// flood is answered with.
func repeat(ctx context.Context, config *rest.Config, flood flood) error {
	clients, err := newAPIs(ctx, config, flood.clients)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	ctx, cancel := context.WithTimeout(ctx, floodTime)
	defer cancel()
	var work errgroup.Group
	for n, client := range clients {
		client.user = floodingUser
		work.Go(func() error {
			for i := n; ctx.Err() == nil; i += len(clients) {
				if flood.send(ctx, client, i) != nil {
					_ = pause(ctx, poll) // its error ends the loop
				}
			}
			return nil
		})
	}
	<-ctx.Done()
	return work.Wait()
}
