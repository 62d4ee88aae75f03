package gpuledgertenants

violation[{"msg": msg}] {
  not is_deletion
  one := named(input.review.object)[_]
  not named_before[one]
  not allowed[one.tenant]
  msg := sprintf("this namespace may name the tenants %s, not %v (its annotation gpuledger.io/tenants when this policy was applied)", [concat(", ", sort(allowed)), one.tenant])
}

is_deletion {
  input.review.operation == "DELETE"
}

# Of a namespace without the annotation: the tenant of its name.
stated[tenant] {
  namespace := input.parameters.namespaces[_]
  namespace.name == input.review.namespace
  tenant := namespace.tenants[_]
}

allowed[tenant] {
  stated[tenant]
}

allowed[tenant] {
  count(stated) == 0
  tenant := input.review.namespace
}

named(object) = found {
  input.review.kind.kind == "Pod"
  found := {one |
    place := ["labels", "annotations"][_]
    tenant := object.metadata[place]["gpuledger.io/tenant"]
    one := {"place": place, "tenant": tenant}
  }
}

named(object) = found {
  input.review.kind.kind == "ElasticJob"
  found := {one |
    tenant := object.spec.tenant
    one := {"place": "spec", "tenant": tenant}
  }
}

# What is named already may stay. A creation, and the audit, have no object before.
named_before[one] {
  one := named(input.review.oldObject)[_]
}
