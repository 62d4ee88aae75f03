SELECT tenant, sum(list_cost) AS at_list, sum(billed_cost) AS at_contract, at_list - at_contract AS saved
FROM v_charges
GROUP BY tenant
ORDER BY saved DESC
