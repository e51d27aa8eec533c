package etcd

import (
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func code(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// definite reports whether err means that the request has had, and will have, no
// effect.
func definite(err error) bool {
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.ResourceExhausted, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}

// passing reports whether a read that failed so may soon succeed, as when the
// cluster elects a leader or a member restarts.
func passing(err error) bool { return code(err) == codes.Unavailable }

func leaseGone(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }
