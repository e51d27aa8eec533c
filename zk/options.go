package zk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/option"
)

type (
	dialerKey struct{}
	authKey   struct{}
	aclKey    struct{}
)

type credential struct {
	scheme string
	auth   []byte
}

// Dialer sets how servers are connected to, as for TLS; the default is TCP. For
// New only. ctx bounds the dialing, not the connection.
func Dialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) fencelock.Option {
	return func(s *option.Set) { s.Put(dialerKey{}, dialFunc(dial)) }
}

// Auth authenticates every connection, as by ("digest", "user:password"). For New
// only; it may be given several times.
func Auth(scheme string, auth []byte) fencelock.Option {
	c := credential{scheme, slices.Clone(auth)}
	return func(s *option.Set) {
		before, _ := s.Own(authKey{}).([]credential)
		s.Put(authKey{}, append(slices.Clone(before), c))
	}
}

// ACL sets who may do what with the nodes that are made; the default is everything
// for everybody. All who use a name need PermRead, PermCreate and PermDelete.
// For New, NewFence and NewTokens only.
func ACL(acl ...gozk.ACL) fencelock.Option {
	return func(s *option.Set) { s.Put(aclKey{}, slices.Clone(acl)) }
}

// openerOf reads what sessions need out of the options.
func openerOf(servers []string, set option.Set) (opener, error) {
	o := opener{timeout: set.TTL.Truncate(time.Millisecond), dial: new(net.Dialer).DialContext}
	if len(servers) == 0 {
		return o, errors.New("no servers")
	}
	if o.timeout.Milliseconds() > math.MaxInt32 {
		return o, fmt.Errorf("option TTL(%v) is more than a session can have", set.TTL)
	}
	for _, addr := range servers {
		if addr == "" {
			return o, errors.New("the address of a server is empty")
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			addr = net.JoinHostPort(addr, strconv.Itoa(gozk.DefaultPort))
		}
		o.servers = append(o.servers, addr)
	}
	rand.Shuffle(len(o.servers), func(i, j int) { o.servers[i], o.servers[j] = o.servers[j], o.servers[i] })
	if dial := set.Own(dialerKey{}); dial != nil {
		if o.dial, _ = dial.(dialFunc); o.dial == nil {
			return o, errors.New("option Dialer(nil)")
		}
	}
	o.auth, _ = set.Own(authKey{}).([]credential)
	return o, nil
}

// aclOf reads the option ACL.
func aclOf(set option.Set) ([]gozk.ACL, error) {
	v := set.Own(aclKey{})
	if v == nil {
		return gozk.WorldACL(gozk.PermAll), nil
	}
	acl := v.([]gozk.ACL)
	if len(acl) == 0 {
		return nil, errors.New("option ACL is empty")
	}
	return acl, nil
}
