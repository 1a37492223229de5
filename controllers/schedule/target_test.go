package schedule

import "testing"

func TestServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		host string
		port int32
		want string
	}{
		"a Service of the namespace":   {"db", 0, "db.shop:5432"},
		"with the namespace":           {"db.shop", 0, "db.shop:5432"},
		"svc":                          {"db.shop.svc", 0, "db.shop:5432"},
		"with the domain":              {"db.shop.svc.cluster.local", 0, "db.shop:5432"},
		"with a dot at the end":        {"DB.Shop.svc.cluster.local.", 5432, "db.shop:5432"},
		"a domain of one's own":        {"db.shop.svc.example.org", 0, "db.shop:5432"},
		"of another namespace":         {"db.other", 0, "db.other:5432"},
		"another port":                 {"db", 6432, "db.shop:6432"},
		"a pod":                        {"db-0.db.shop.svc.cluster.local", 0, "db-0.db.shop:5432"},
		"an external name":             {"Orders.Example.com", 0, "orders.example.com:5432"},
		"a Service that is called svc": {"svc", 0, "svc.shop:5432"},
		"a namespace called svc":       {"db.svc", 0, "db.svc:5432"},
		"a Service called svc in full": {"svc.shop.svc", 0, "svc.shop:5432"},
		"and in full":                  {"db.svc.svc.cluster.local", 0, "db.svc:5432"},
		"IPv4":                         {"10.0.0.1", 0, "10.0.0.1:5432"},
		"IPv4 within IPv6":             {"::ffff:10.0.0.1", 0, "10.0.0.1:5432"},
		"IPv6":                         {"2001:db8::1", 0, "[2001:db8::1]:5432"},
		"IPv6 in full":                 {"2001:0DB8:0:0:0:0:0:1", 0, "[2001:db8::1]:5432"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := Target{Engine: "PostgreSQL", Namespace: "shop", Host: test.host, Port: test.port}
			if got := target.Server(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestServerOfUnknownEngine(t *testing.T) {
	t.Parallel()
	if got := (Target{Engine: "Oracle", Namespace: "shop", Host: "db"}).Server(); got != "db.shop:0" {
		t.Errorf("got %s", got)
	}
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	ours := Target{Engine: "PostgreSQL", Namespace: "shop", Host: "db", Databases: []string{"orders", "stock"}}
	for name, test := range map[string]struct {
		other Target
		want  bool
	}{
		"the same":            {ours, true},
		"one of them":         {Target{Engine: "PostgreSQL", Namespace: "x", Host: "db.shop.svc", Databases: []string{"stock"}}, true},
		"all":                 {Target{Engine: "PostgreSQL", Namespace: "x", Host: "db.shop", Port: 5432}, true},
		"another database":    {Target{Engine: "PostgreSQL", Namespace: "shop", Host: "db", Databases: []string{"users"}}, false},
		"written differently": {Target{Engine: "PostgreSQL", Namespace: "shop", Host: "db", Databases: []string{"Orders"}}, false},
		"another namespace":   {Target{Engine: "PostgreSQL", Namespace: "x", Host: "db"}, false},
		"another server":      {Target{Engine: "PostgreSQL", Namespace: "shop", Host: "db2"}, false},
		"another port":        {Target{Engine: "PostgreSQL", Namespace: "shop", Host: "db", Port: 5433}, false},
		"another engine":      {Target{Engine: "MySQL", Namespace: "shop", Host: "db"}, false},
		"what listens there":  {Target{Engine: "MySQL", Namespace: "shop", Host: "db", Port: 5432}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if Overlaps(ours, test.other) != test.want || Overlaps(test.other, ours) != test.want {
				t.Errorf("%+v and %+v: want %t both ways round", ours, test.other, test.want)
			}
		})
	}
}
