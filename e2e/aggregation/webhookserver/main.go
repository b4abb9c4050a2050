// Command webhookserver is the webhook servers of the tests, each a process of
// its own.
//
//	webhookserver webhook ...   agnhost's webhook, as upstream's image runs it
//	webhookserver serve ...     agnhost's conversion handler, and what the tests
//	                            of timeouts, rotation and replicas need
//
// Upstream's crd-conversion-webhook wants the configuration of a pod before it
// serves; its handler is the same here.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/kubernetes/test/images/agnhost/crd-conversion-webhook/converter"
	"k8s.io/kubernetes/test/images/agnhost/webhook"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: webhookserver webhook|serve [flags]")
		os.Exit(2)
	}
	run := serve
	if os.Args[1] == "webhook" {
		run = func(args []string) error {
			webhook.CmdWebhook.SetArgs(args)
			return webhook.CmdWebhook.Execute()
		}
	}
	if err := run(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers until SIGTERM, then ends the requests under way.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	listen := flags.String("listen", "", "host:port")
	certificate := flags.String("tls-cert-file", "", "read again for each connection")
	key := flags.String("tls-private-key-file", "", "read again for each connection")
	name := flags.String("name", "", "what /label writes into objects")
	if err := flags.Parse(args); err != nil {
		return err
	}
	handler := &handler{name: *name}
	mux := http.NewServeMux()
	mux.HandleFunc("/crdconvert", converter.ServeExampleConvert)
	mux.HandleFunc("/label", handler.label)
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := &http.Server{Addr: *listen, Handler: mux, TLSConfig: &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(*certificate, *key)
			return &pair, err
		},
	}}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	drained := make(chan error, 1)
	go func() {
		<-ctx.Done()
		drained <- server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}

type handler struct{ name string }

// label admits each request and adds a label with its name.
func (h *handler) label(w http.ResponseWriter, r *http.Request) {
	h.patch(w, r, "/metadata/labels", map[string]string{"admitted-by": h.name})
}

// patch admits an object and adds something to it.
func (h *handler) patch(w http.ResponseWriter, r *http.Request, path string, value any) {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": path, "value": value}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	kind := admissionv1.PatchTypeJSONPatch
	h.admit(w, r, &admissionv1.AdmissionResponse{Patch: patch, PatchType: &kind})
}

// admit answers a review.
func (h *handler) admit(w http.ResponseWriter, r *http.Request, response *admissionv1.AdmissionResponse) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprintf("not an AdmissionReview: %v", err), http.StatusBadRequest)
		return
	}
	response.UID, response.Allowed = review.Request.UID, true
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the client notices an incomplete response
}
