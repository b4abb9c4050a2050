package admin

import (
	"net/http"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
)

// Handlers are what a server serves beside the Kubernetes API, by path. Requests
// are authenticated, and authorized as non-resource URLs.
func Handlers(status func() StatusSource, archive http.Handler, store datastore.Datastore, rotator *KeyRotator, certificates *Certificates) map[string]http.Handler {
	return map[string]http.Handler{
		statusPath:       StatusHandler(status),
		backupPath:       onlyPost(archive),
		defragmentPath:   onlyPost(defragmenter{store}),
		rotatePath:       onlyPost(rotator),
		certificatesPath: onlyPost(certificates),
	}
}

// onlyPost is a handler for what a request changes or reveals.
func onlyPost(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "this path answers to a POST", http.StatusMethodNotAllowed)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
