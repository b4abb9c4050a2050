package endpoints

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// Reachable is the condition of a ServiceEndpoint with a target that speaks TLS.
const Reachable = "Reachable"

const (
	probeWorkers = 4
	// minReprobe and maxReprobe bound the wait before an unreachable target is probed
	// again.
	minReprobe = 500 * time.Millisecond
	maxReprobe = 5 * time.Second
)

// prober checks whether targets can be reached and writes the result to the status of
// the objects.
type prober struct {
	resolver *Resolver
	client   dynamic.Interface
	dial     utilnet.DialFunc
	store    cache.Store
	loop     *reconcile.Loop[Reference]
	log      *slog.Logger
	denied   logging.Changes // the targets of each object that are not allowed
}

// status of a ServiceEndpoint.
type status struct {
	Reachable  string             `json:"reachable"`
	Conditions []metav1.Condition `json:"conditions"`
}

func (p *prober) handle(ctx context.Context, ref Reference) reconcile.Result {
	allReachable, err := p.probe(ctx, ref)
	if err != nil && ctx.Err() == nil {
		utilruntime.HandleErrorWithContext(ctx, err,
			"Updating the status of a ServiceEndpoint failed", "serviceEndpoint", ref)
	}
	if allReachable && err == nil {
		return reconcile.Done()
	}
	return reconcile.Retry() // there is no event when a target is reachable again
}

// probe probes all targets of an object and writes its status if it has changed. It
// returns false if a target cannot be reached: the targets are probed again soon.
func (p *prober) probe(ctx context.Context, ref Reference) (bool, error) {
	obj, exists, err := p.store.GetByKey(ref.String())
	if err != nil || !exists {
		p.resolver.dropState(ref)
		p.denied.Forget(ref.String())
		return true, err
	}
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return true, fmt.Errorf("the cache of ServiceEndpoints holds a %T", obj)
	}
	_, targets, err := targetsOf(object)
	if err != nil {
		return true, nil // setTargets has logged it
	}
	var current status
	if content, found, _ := unstructured.NestedMap(object.Object, "status"); found {
		// A status that cannot be read is replaced.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &current)
	}
	if p.resolver.configured(ref) {
		p.resolver.dropState(ref)
		return true, p.write(ctx, ref, current, status{Reachable: "", Conditions: current.Conditions}, metav1.Condition{
			Type: Reachable, Status: metav1.ConditionUnknown, Reason: "Configured", ObservedGeneration: object.GetGeneration(),
			Message: "the object is not used: serviceEndpoints in the server's configuration has an entry for this Service",
		})
	}
	reached, failures := p.reach(ctx, ref, targets)
	if ctx.Err() != nil {
		return true, nil
	}
	state := State{Reference: ref, Targets: len(targets), Reachable: reached}
	if failures != nil {
		state.Failure = failures.Error()
	}
	p.resolver.setState(state)
	condition := metav1.Condition{
		Type: Reachable, Status: metav1.ConditionTrue, Reason: "TargetsReachable",
		Message: "all targets speak TLS", ObservedGeneration: object.GetGeneration(),
	}
	switch {
	case reached == 0:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "NoTargetReachable", failures.Error()
	case failures != nil:
		condition.Reason, condition.Message = "SomeTargetsReachable", failures.Error()
	}
	return failures == nil, p.write(ctx, ref, current, status{Reachable: fmt.Sprintf("%d/%d", reached, len(targets)),
		Conditions: current.Conditions}, condition)
}

// write writes the wanted status with the condition if it differs from the
// current one.
func (p *prober) write(ctx context.Context, ref Reference, current, wanted status, condition metav1.Condition) error {
	if changed := meta.SetStatusCondition(&wanted.Conditions, condition); !changed &&
		wanted.Reachable == current.Reachable {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": wanted})
	if err != nil {
		return err
	}
	_, err = p.client.Resource(serviceEndpoints).Namespace(ref.Namespace).Patch(ctx, ref.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// statusError returns the error that the status shows for a target that could not
// be connected to.
func statusError(target string, err error) error {
	if denied, ok := errors.AsType[*DeniedError](err); ok && denied.Resolved {
		return fmt.Errorf("%s is not reachable", target)
	}
	return err
}

// logDenied logs the targets of an object that the policy denies, when they are others than the
// last time. The address of a name may change with each probe.
func (p *prober) logDenied(ref Reference, targets []string, dialErrs []error) {
	var names, reasons []string
	for i, err := range dialErrs {
		if denied, ok := errors.AsType[*DeniedError](err); ok {
			names, reasons = append(names, targets[i]), append(reasons, denied.Error())
		}
	}
	if denied := strings.Join(names, " "); denied != "" && p.denied.Changed(ref.String(), denied) {
		p.log.Warn("a ServiceEndpoint has a target that is not allowed", "serviceEndpoint", ref, "target", denied,
			"reason", strings.Join(reasons, "; "))
	}
}

// reach counts the targets that speak TLS and joins the errors of the others, in their
// order.
func (p *prober) reach(ctx context.Context, ref Reference, targets []string) (int, error) {
	errs, dialErrs := make([]error, len(targets)), make([]error, len(targets))
	health := p.resolver.healthOf(ref)
	var probes sync.WaitGroup
	for i, target := range targets {
		probes.Go(func() {
			dialErrs[i], errs[i] = p.handshake(ctx, ref, target)
			if ctx.Err() != nil {
				return
			}
			changed := health.mark(target, dialErrs[i])
			if health.markSilent(target, dialErrs[i] == nil && errs[i] != nil) || changed {
				p.resolver.Changed(ref)
			}
		})
	}
	probes.Wait()
	if ctx.Err() == nil {
		p.logDenied(ref, targets, dialErrs)
	}
	reached := 0
	for _, err := range errs {
		if err == nil {
			reached++
		}
	}
	return reached, errors.Join(errs...)
}

// handshake makes and closes a TLS connection. dialErr is the error of the connection,
// tlsErr that of the connection or of TLS. Without a handshake, servers would log an error.
// It verifies no certificate: the CA is in the objects that refer to this one.
func (p *prober) handshake(ctx context.Context, ref Reference, target string) (dialErr, tlsErr error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	connection, err := connect(ctx, p.dial, p.resolver.policyOf(ref), target)
	if err != nil {
		return err, statusError(target, err)
	}
	//nolint:gosec // see above
	client := tls.Client(connection, &tls.Config{ServerName: ref.host(), InsecureSkipVerify: true})
	err = client.HandshakeContext(ctx)
	_ = client.Close() // the handshake is the whole probe
	if err != nil {
		return nil, fmt.Errorf("TLS handshake with %s: %w", target, WithoutSource(err))
	}
	return nil, nil
}

// WithoutSource removes the local port from an error: it would make equal failures
// differ.
func WithoutSource(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return &net.OpError{Op: op.Op, Net: op.Net, Addr: op.Addr, Err: op.Err}
	}
	return err
}
