package appliance

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// runAPIServer is the Run of the API servers' part: it serves until ctx ends and the requests
// have been drained. It is ready when the controllers can start.
func (s *server) runAPIServer(ctx context.Context, ready func()) error {
	if err := s.store.Register(ctx); err != nil {
		return err
	}
	s.storage = storage.New(s.store.Connection(), s.options.Storage(), s.log)
	defer s.storage.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	api, err := s.buildAPIServer(ctx)
	if err != nil {
		return err
	}
	err = s.store.WaitReady(ctx)
	if err == nil {
		err = s.beforeWrites(ctx)
	}
	if err == nil {
		err = api.CreateFirstObjects(ctx)
	}
	if previous := s.dir.Previous; err == nil && previous != nil && previous.FirstStart == datadir.Copied {
		err = s.storage.DeleteStored(ctx, corev1.Resource("configmaps"), metav1.NamespaceSystem, kube.AuthenticationConfigMap)
	}
	if err != nil {
		cancel()
		api.Discard()
		return err
	}
	api.FillCaches(ctx)
	s.api = api
	return api.Run(ctx, ready)
}

// buildAPIServer makes the chain. It does not read from the store, which may still start.
func (s *server) buildAPIServer(ctx context.Context) (*apiserver.Server, error) {
	policy, err := endpoints.NewPolicy(s.config.ServiceEndpointPolicy, s.config.Serving.OnLoopbackOnly())
	if err != nil {
		return nil, err
	}
	services, err := endpoints.New(s.config.ServiceEndpoints, policy)
	if err != nil {
		return nil, err
	}
	metrics := slices.Concat(s.backups.Metrics(), []prometheus.Collector{admin.Metrics(s.status)},
		s.store.Maintenance().Metrics(), services.Metrics())
	if s.journal != nil {
		metrics = append(metrics, s.journal.Metrics()...)
	}
	api, err := apiserver.New(ctx, s.options, apiserver.Config{
		Listener:  s.listener,
		Storage:   s.storage,
		Files:     s.options.Files(s.identity.Certificates(), s.identity.GeneratedEncryption()),
		TokenKeys: s.tokenKeys,
		Revoked:   s.identity.Certificates().Revoked,
		Endpoints: services,
		Shared:    s.store.Shared(),
		Alone:     s.store.Alone,
		Log:       s.log,
		NotReady:  s.notReady,
		Metrics:   metrics,

		Extensions: s.extension.API,
	})
	if err != nil {
		return nil, err
	}
	certificates := &admin.Certificates{Identity: s.identity, Alone: s.store.Alone,
		Reload: api.ReloadCertificates, Record: s.journal.RecordFiles}
	handlers := admin.Handlers(s.status, s.backups.Endpoint(), s.store, s.rotator, certificates)
	maps.Copy(handlers, s.extension.API.Paths)
	for path, handler := range handlers {
		api.Handle(path, handler)
	}
	return api, nil
}
